// One step of PageRank, for the nodes of one worker. A node divides its rank among the nodes that it links to; one that
// links to none (a sink) divides it among all. The graph lies on the worker as CSR rows: %counts says how many nodes
// link to each of its own, and %neighbours has their numbers, one node's after the other's. %links says how many nodes
// each links to; %old, %shares and %sinks are of the step before. Returns the ranks, what each node gives to each that
// it links to, all that sinks have, and by how much the ranks have changed.
func.func @page_rank(%counts: tensor<?xi32>, %neighbours: tensor<?xi32>, %links: tensor<?xi32>,
                     %old: tensor<?xf64>, %shares: tensor<?xf64>, %sinks: tensor<f64>, %damping: f64,
                     %nodes: index {lockstep.global_size = array<i64: 0, 0>})
    -> (tensor<?xf64>, tensor<?xf64>, tensor<f64>, tensor<f64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %rows = tensor.dim %counts, %c0 : tensor<?xi32>

  // What every node gets: ((1 - damping) + damping * sinks) / nodes.
  %nodes_integer = arith.index_cast %nodes : index to i64
  %nodes_number = arith.sitofp %nodes_integer : i64 to f64
  %of_sinks = tensor.extract %sinks[] : tensor<f64>
  %undamped = arith.subf %one, %damping : f64
  %damped = arith.mulf %damping, %of_sinks : f64
  %for_all = arith.addf %undamped, %damped : f64
  %least = arith.divf %for_all, %nodes_number : f64

  %no_ranks = tensor.empty(%rows) : tensor<?xf64>
  %no_shares = tensor.empty(%rows) : tensor<?xf64>
  %ranks, %new_shares, %new_sinks, %change, %end = scf.for %i = %c0 to %rows step %c1
      iter_args(%r = %no_ranks, %s = %no_shares, %t = %zero, %d = %zero, %begin = %c0)
      -> (tensor<?xf64>, tensor<?xf64>, f64, f64, index) {
    %count = tensor.extract %counts[%i] : tensor<?xi32>
    %size = arith.index_cast %count : i32 to index
    %next_begin = arith.addi %begin, %size : index
    %sum = scf.for %at = %begin to %next_begin step %c1 iter_args(%so_far = %zero) -> f64 {
      %number = tensor.extract %neighbours[%at] : tensor<?xi32>
      %neighbour = arith.index_cast %number : i32 to index
      %share = tensor.extract %shares[%neighbour] : tensor<?xf64>
      %more = arith.addf %so_far, %share : f64
      scf.yield %more : f64
    }
    %linked = arith.mulf %damping, %sum : f64
    %rank = arith.addf %least, %linked : f64
    %next_r = tensor.insert %rank into %r[%i] : tensor<?xf64>

    %out_integer = tensor.extract %links[%i] : tensor<?xi32>
    %out = arith.sitofp %out_integer : i32 to f64
    %is_sink = arith.cmpf oeq, %out, %zero : f64
    %parts = arith.maximumf %out, %one : f64
    %share = arith.divf %rank, %parts : f64
    %next_s = tensor.insert %share into %s[%i] : tensor<?xf64>
    %stays = arith.select %is_sink, %rank, %zero : f64
    %next_t = arith.addf %t, %stays : f64

    %before = tensor.extract %old[%i] : tensor<?xf64>
    %difference = arith.subf %rank, %before : f64
    %size_of_change = math.absf %difference : f64
    %next_d = arith.addf %d, %size_of_change : f64
    scf.yield %next_r, %next_s, %next_t, %next_d, %next_begin : tensor<?xf64>, tensor<?xf64>, f64, f64, index
  }
  %all_sinks = tensor.from_elements %new_sinks : tensor<f64>
  %all_change = tensor.from_elements %change : tensor<f64>
  return %ranks, %new_shares, %all_sinks, %all_change : tensor<?xf64>, tensor<?xf64>, tensor<f64>, tensor<f64>
}
