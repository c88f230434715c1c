// One step towards connected components, for the nodes of one worker. A label is the number of a node of the same
// component. A node's label becomes the least of its own and its neighbours', and then the label of the node that this
// names, so that long ways take few steps. The graph lies on the worker as page_rank.mlir tells. Returns the labels,
// and how many have changed.
func.func @components(%counts: tensor<?xi32>, %neighbours: tensor<?xi32>, %labels: tensor<?xi64>,
                      %offset: index {lockstep.offset = array<i64: 0, 0>}) -> (tensor<?xi64>, tensor<i64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %none = arith.constant 0 : i64
  %rows = tensor.dim %counts, %c0 : tensor<?xi32>
  %empty = tensor.empty(%rows) : tensor<?xi64>
  %new_labels, %changed, %end = scf.for %i = %c0 to %rows step %c1
      iter_args(%l = %empty, %m = %none, %begin = %c0) -> (tensor<?xi64>, i64, index) {
    %count = tensor.extract %counts[%i] : tensor<?xi32>
    %size = arith.index_cast %count : i32 to index
    %next_begin = arith.addi %begin, %size : index
    %node = arith.addi %offset, %i : index
    %old = tensor.extract %labels[%node] : tensor<?xi64>
    %least = scf.for %at = %begin to %next_begin step %c1 iter_args(%so_far = %old) -> i64 {
      %number = tensor.extract %neighbours[%at] : tensor<?xi32>
      %neighbour = arith.index_cast %number : i32 to index
      %label = tensor.extract %labels[%neighbour] : tensor<?xi64>
      %less = arith.minsi %so_far, %label : i64
      scf.yield %less : i64
    }
    %named = arith.index_cast %least : i64 to index
    %label = tensor.extract %labels[%named] : tensor<?xi64>
    %next_l = tensor.insert %label into %l[%i] : tensor<?xi64>
    %differs = arith.cmpi ne, %label, %old : i64
    %one_more = arith.extui %differs : i1 to i64
    %next_m = arith.addi %m, %one_more : i64
    scf.yield %next_l, %next_m, %next_begin : tensor<?xi64>, i64, index
  }
  %all_changed = tensor.from_elements %changed : tensor<i64>
  return %new_labels, %all_changed : tensor<?xi64>, tensor<i64>
}
