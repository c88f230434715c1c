// How well each row fits each of ten classes: X W.
func.func @scores(%x: tensor<?x64xf64>, %w: tensor<64x10xf64>) -> tensor<?x10xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x64xf64>
  %empty = tensor.empty(%rows) : tensor<?x10xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?x10xf64>) -> tensor<?x10xf64>
  %scores = linalg.matmul ins(%x, %w : tensor<?x64xf64>, tensor<64x10xf64>)
      outs(%none : tensor<?x10xf64>) -> tensor<?x10xf64>
  return %scores : tensor<?x10xf64>
}
