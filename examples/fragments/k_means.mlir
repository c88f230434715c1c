// One step of k-means on a worker's rows. A centre is the mean of its rows, given as their sum and their number.
// Returns the sums and numbers of the next centres, as far as this worker's rows go, the centre that is nearest to each
// row, and how many rows have another one than before. Rows are taken 256 at a time, so that they are still in a cache
// when they are added up.
#matrix = affine_map<(i, j) -> (i, j)>
#by_row = affine_map<(i, j) -> (i)>

func.func @k_means(%x: tensor<?x?xf64>, %labels: tensor<?xi64>, %sums: tensor<?x?xf64>, %counts: tensor<?xf64>)
    -> (tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, tensor<i64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %block = arith.constant 256 : index
  %zero = arith.constant 0.0 : f64
  %half = arith.constant 0.5 : f64
  %one = arith.constant 1.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf64>
  %k = tensor.dim %sums, %c0 : tensor<?x?xf64>

  // A centre that has lost all its rows is 0.
  %no_centres = tensor.empty(%k, %columns) : tensor<?x?xf64>
  %centres = linalg.generic {indexing_maps = [#matrix, #by_row, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%sums, %counts : tensor<?x?xf64>, tensor<?xf64>) outs(%no_centres : tensor<?x?xf64>) {
  ^bb0(%sum: f64, %count: f64, %out: f64):
    %at_least_one = arith.maximumf %count, %one : f64
    %mean = arith.divf %sum, %at_least_one : f64
    linalg.yield %mean : f64
  } -> tensor<?x?xf64>

  // |x - c|^2 is least where the score x.c - |c|^2 / 2 is greatest.
  %no_counts = tensor.empty(%k) : tensor<?xf64>
  %zeros = linalg.fill ins(%zero : f64) outs(%no_counts : tensor<?xf64>) -> tensor<?xf64>
  %handicaps = linalg.generic {indexing_maps = [#matrix, #by_row], iterator_types = ["parallel", "reduction"]}
      ins(%centres : tensor<?x?xf64>) outs(%zeros : tensor<?xf64>) {
  ^bb0(%c: f64, %sum: f64):
    %square = arith.mulf %c, %c : f64
    %share = arith.mulf %square, %half : f64
    %next = arith.subf %sum, %share : f64
    linalg.yield %next : f64
  } -> tensor<?xf64>

  // So far: sums and counts of the next centres, labels, and how many of these have changed.
  %no_sums = linalg.fill ins(%zero : f64) outs(%no_centres : tensor<?x?xf64>) -> tensor<?x?xf64>
  %no_labels = tensor.empty(%rows) : tensor<?xi64>
  %none_moved = arith.constant 0 : i64
  %new_sums, %new_counts, %new_labels, %moved = scf.for %begin = %c0 to %rows step %block
      iter_args(%s0 = %no_sums, %n0 = %zeros, %l0 = %no_labels, %m0 = %none_moved)
      -> (tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, i64) {
    %left = arith.subi %rows, %begin : index
    %size = arith.minsi %left, %block : index
    %xs = tensor.extract_slice %x[%begin, 0] [%size, %columns] [1, 1] : tensor<?x?xf64> to tensor<?x?xf64>
    %no_scores = tensor.empty(%size, %k) : tensor<?x?xf64>
    %start = linalg.broadcast ins(%handicaps : tensor<?xf64>) outs(%no_scores : tensor<?x?xf64>) dimensions = [0]
    %scores = linalg.matmul_transpose_b ins(%xs, %centres : tensor<?x?xf64>, tensor<?x?xf64>)
        outs(%start : tensor<?x?xf64>) -> tensor<?x?xf64>

    %s1, %n1, %l1, %m1 = scf.for %i = %c0 to %size step %c1
        iter_args(%s = %s0, %n = %n0, %l = %l0, %m = %m0)
        -> (tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, i64) {
      // Of several that are equally near, the first.
      %first = tensor.extract %scores[%i, %c0] : tensor<?x?xf64>
      %nearest, %best = scf.for %c = %c1 to %k step %c1 iter_args(%leader = %c0, %lead = %first) -> (index, f64) {
        %score = tensor.extract %scores[%i, %c] : tensor<?x?xf64>
        %better = arith.cmpf ogt, %score, %lead : f64
        %next_leader = arith.select %better, %c, %leader : index
        %next_lead = arith.select %better, %score, %lead : f64
        scf.yield %next_leader, %next_lead : index, f64
      }

      %next_s = scf.for %j = %c0 to %columns step %c1 iter_args(%t = %s) -> tensor<?x?xf64> {
        %element = tensor.extract %xs[%i, %j] : tensor<?x?xf64>
        %sum = tensor.extract %t[%nearest, %j] : tensor<?x?xf64>
        %more = arith.addf %sum, %element : f64
        %u = tensor.insert %more into %t[%nearest, %j] : tensor<?x?xf64>
        scf.yield %u : tensor<?x?xf64>
      }

      %count = tensor.extract %n[%nearest] : tensor<?xf64>
      %new_count = arith.addf %count, %one : f64
      %next_n = tensor.insert %new_count into %n[%nearest] : tensor<?xf64>

      %at = arith.addi %begin, %i : index
      %label = arith.index_cast %nearest : index to i64
      %next_l = tensor.insert %label into %l[%at] : tensor<?xi64>
      %old_label = tensor.extract %labels[%at] : tensor<?xi64>
      %differs = arith.cmpi ne, %label, %old_label : i64
      %one_more = arith.extui %differs : i1 to i64
      %next_m = arith.addi %m, %one_more : i64
      scf.yield %next_s, %next_n, %next_l, %next_m : tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, i64
    }
    scf.yield %s1, %n1, %l1, %m1 : tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, i64
  }
  %all_moved = tensor.from_elements %moved : tensor<i64>
  return %new_sums, %new_counts, %new_labels, %all_moved : tensor<?x?xf64>, tensor<?xf64>, tensor<?xi64>, tensor<i64>
}
