// What a worker's rows add to the gradient of a logistic regression, and to its loss: with p = 1 / (1 + exp(-Xw)),
// X'(p - y) and the sum of log(1 + exp(Xw)) - y Xw.
func.func @logistic_gradient(%x: tensor<?x?xf64>, %y: tensor<?xf64>, %w: tensor<?xf64>)
    -> (tensor<?xf64>, tensor<f64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf64>

  %empty = tensor.empty(%rows) : tensor<?xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?xf64>) -> tensor<?xf64>
  %z = linalg.matvec ins(%x, %w : tensor<?x?xf64>, tensor<?xf64>) outs(%none : tensor<?xf64>) -> tensor<?xf64>

  %misses = linalg.map ins(%z, %y : tensor<?xf64>, tensor<?xf64>) outs(%empty : tensor<?xf64>) (%zi: f64, %yi: f64) {
    %minus = arith.negf %zi : f64
    %power = math.exp %minus : f64
    %sum = arith.addf %one, %power : f64
    %p = arith.divf %one, %sum : f64
    %miss = arith.subf %p, %yi : f64
    linalg.yield %miss : f64
  }
  %empty_gradient = tensor.empty(%columns) : tensor<?xf64>
  %no_gradient = linalg.fill ins(%zero : f64) outs(%empty_gradient : tensor<?xf64>) -> tensor<?xf64>
  %gradient = linalg.vecmat ins(%misses, %x : tensor<?xf64>, tensor<?x?xf64>)
      outs(%no_gradient : tensor<?xf64>) -> tensor<?xf64>

  // log(1 + exp(z)) is max(z, 0) + log(1 + exp(-|z|)), which does not overflow.
  %no_loss = arith.constant dense<0.0> : tensor<f64>
  %losses = linalg.map ins(%z, %y : tensor<?xf64>, tensor<?xf64>) outs(%empty : tensor<?xf64>) (%zi: f64, %yi: f64) {
    %size = math.absf %zi : f64
    %minus = arith.negf %size : f64
    %power = math.exp %minus : f64
    %log = math.log1p %power : f64
    %positive = arith.maximumf %zi, %zero : f64
    %soft = arith.addf %positive, %log : f64
    %right = arith.mulf %yi, %zi : f64
    %loss = arith.subf %soft, %right : f64
    linalg.yield %loss : f64
  }
  %loss = linalg.reduce { arith.addf } ins(%losses : tensor<?xf64>) outs(%no_loss : tensor<f64>) dimensions = [0]
  return %gradient, %loss : tensor<?xf64>, tensor<f64>
}
