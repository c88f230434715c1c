// What one worker contributes to the normal equations of a least-squares fit: X'X and X'Y of its rows.
func.func @normal_equations(%x: tensor<?x64xf64>, %y: tensor<?x10xf64>) -> (tensor<64x64xf64>, tensor<64x10xf64>) {
  %no_gram = arith.constant dense<0.0> : tensor<64x64xf64>
  %no_moments = arith.constant dense<0.0> : tensor<64x10xf64>
  %gram = linalg.matmul_transpose_a ins(%x, %x : tensor<?x64xf64>, tensor<?x64xf64>)
      outs(%no_gram : tensor<64x64xf64>) -> tensor<64x64xf64>
  %moments = linalg.matmul_transpose_a ins(%x, %y : tensor<?x64xf64>, tensor<?x10xf64>)
      outs(%no_moments : tensor<64x10xf64>) -> tensor<64x10xf64>
  return %gram, %moments : tensor<64x64xf64>, tensor<64x10xf64>
}
