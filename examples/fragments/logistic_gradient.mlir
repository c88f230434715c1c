// What a worker's rows add to the gradient of a logistic regression, and to its loss: with p = 1 / (1 + exp(-Xw)),
// X'(p - y) and the sum of log(1 + exp(Xw)) - y Xw. Rows are taken 256 at a time, so that they are still in a cache
// when they are needed again.
#id = affine_map<(i) -> (i)>

func.func @logistic_gradient(%x: tensor<?x?xf64>, %y: tensor<?xf64>, %w: tensor<?xf64>)
    -> (tensor<?xf64>, tensor<f64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %block = arith.constant 256 : index
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf64>

  %empty_gradient = tensor.empty(%columns) : tensor<?xf64>
  %no_gradient = linalg.fill ins(%zero : f64) outs(%empty_gradient : tensor<?xf64>) -> tensor<?xf64>
  %no_loss = arith.constant dense<0.0> : tensor<f64>
  %gradient, %loss = scf.for %begin = %c0 to %rows step %block
      iter_args(%g = %no_gradient, %l = %no_loss) -> (tensor<?xf64>, tensor<f64>) {
    %left = arith.subi %rows, %begin : index
    %size = arith.minsi %left, %block : index
    %xs = tensor.extract_slice %x[%begin, 0] [%size, %columns] [1, 1] : tensor<?x?xf64> to tensor<?x?xf64>
    %ys = tensor.extract_slice %y[%begin] [%size] [1] : tensor<?xf64> to tensor<?xf64>

    %empty = tensor.empty(%size) : tensor<?xf64>
    %none = linalg.fill ins(%zero : f64) outs(%empty : tensor<?xf64>) -> tensor<?xf64>
    %z = linalg.matvec ins(%xs, %w : tensor<?x?xf64>, tensor<?xf64>) outs(%none : tensor<?xf64>) -> tensor<?xf64>

    // With e = exp(-|z|), which does not overflow, p is 1 / (1 + e) or e / (1 + e), and log(1 + exp(z)) is
    // max(z, 0) + log(1 + e).
    %misses, %losses = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
        ins(%z, %ys : tensor<?xf64>, tensor<?xf64>) outs(%empty, %empty : tensor<?xf64>, tensor<?xf64>) {
    ^bb0(%zi: f64, %yi: f64, %out0: f64, %out1: f64):
      %far = math.absf %zi : f64
      %minus = arith.negf %far : f64
      %e = math.exp %minus : f64
      %is_positive = arith.cmpf oge, %zi, %zero : f64
      %top = arith.select %is_positive, %one, %e : f64
      %bottom = arith.addf %one, %e : f64
      %p = arith.divf %top, %bottom : f64
      %miss = arith.subf %p, %yi : f64
      %log = math.log1p %e : f64
      %positive = arith.maximumf %zi, %zero : f64
      %soft = arith.addf %positive, %log : f64
      %right = arith.mulf %yi, %zi : f64
      %loss_i = arith.subf %soft, %right : f64
      linalg.yield %miss, %loss_i : f64, f64
    } -> (tensor<?xf64>, tensor<?xf64>)

    %next_g = linalg.vecmat ins(%misses, %xs : tensor<?xf64>, tensor<?x?xf64>) outs(%g : tensor<?xf64>) -> tensor<?xf64>
    %next_l = linalg.reduce { arith.addf } ins(%losses : tensor<?xf64>) outs(%l : tensor<f64>) dimensions = [0]
    scf.yield %next_g, %next_l : tensor<?xf64>, tensor<f64>
  }
  return %gradient, %loss : tensor<?xf64>, tensor<f64>
}
