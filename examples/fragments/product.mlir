// X w: each row's product with one vector.
func.func @product(%x: tensor<?x?xf64>, %w: tensor<?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %empty = tensor.empty(%rows) : tensor<?xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?xf64>) -> tensor<?xf64>
  %products = linalg.matvec ins(%x, %w : tensor<?x?xf64>, tensor<?xf64>) outs(%none : tensor<?xf64>) -> tensor<?xf64>
  return %products : tensor<?xf64>
}
