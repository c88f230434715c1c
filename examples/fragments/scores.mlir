// How well each row fits each class: X W.
func.func @scores(%x: tensor<?x?xf64>, %w: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %classes = tensor.dim %w, %c1 : tensor<?x?xf64>
  %empty = tensor.empty(%rows, %classes) : tensor<?x?xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?x?xf64>) -> tensor<?x?xf64>
  %scores = linalg.matmul ins(%x, %w : tensor<?x?xf64>, tensor<?x?xf64>)
      outs(%none : tensor<?x?xf64>) -> tensor<?x?xf64>
  return %scores : tensor<?x?xf64>
}
