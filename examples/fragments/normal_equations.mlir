// What one worker contributes to the normal equations of a least-squares fit: X'X and X'Y of its rows.
func.func @normal_equations(%x: tensor<?x?xf64>, %y: tensor<?x?xf64>) -> (tensor<?x?xf64>, tensor<?x?xf64>) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %inputs = tensor.dim %x, %c1 : tensor<?x?xf64>
  %outputs = tensor.dim %y, %c1 : tensor<?x?xf64>
  %empty_gram = tensor.empty(%inputs, %inputs) : tensor<?x?xf64>
  %no_gram = linalg.fill ins(%zero : f64) outs(%empty_gram : tensor<?x?xf64>) -> tensor<?x?xf64>
  %gram = linalg.matmul_transpose_a ins(%x, %x : tensor<?x?xf64>, tensor<?x?xf64>)
      outs(%no_gram : tensor<?x?xf64>) -> tensor<?x?xf64>
  %empty_moments = tensor.empty(%inputs, %outputs) : tensor<?x?xf64>
  %no_moments = linalg.fill ins(%zero : f64) outs(%empty_moments : tensor<?x?xf64>) -> tensor<?x?xf64>
  %moments = linalg.matmul_transpose_a ins(%x, %y : tensor<?x?xf64>, tensor<?x?xf64>)
      outs(%no_moments : tensor<?x?xf64>) -> tensor<?x?xf64>
  return %gram, %moments : tensor<?x?xf64>, tensor<?x?xf64>
}
