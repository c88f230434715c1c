// What each row adds up to.
func.func @row_sums(%x: tensor<?x?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %empty = tensor.empty(%rows) : tensor<?xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?xf64>) -> tensor<?xf64>
  %sums = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf64>) outs(%none : tensor<?xf64>) dimensions = [1]
  return %sums : tensor<?xf64>
}
