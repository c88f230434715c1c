// A step of gradient descent: w - rate * gradient.
func.func @descend(%w: tensor<?xf64>, %gradient: tensor<?xf64>, %rate: f64) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %w, %c0 : tensor<?xf64>
  %empty = tensor.empty(%size) : tensor<?xf64>
  %next = linalg.map ins(%w, %gradient : tensor<?xf64>, tensor<?xf64>) outs(%empty : tensor<?xf64>)
      (%wi: f64, %gi: f64) {
    %step = arith.mulf %rate, %gi : f64
    %moved = arith.subf %wi, %step : f64
    linalg.yield %moved : f64
  }
  return %next : tensor<?xf64>
}
