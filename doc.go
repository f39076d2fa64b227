// Package graphrun runs dataflow graphs over strided tensors, with the layout rules of PyTorch. It is
// the front door: it joins the packages that load, plan and run graphs, each of which can be used
// alone.
//
//	g, err := graphrun.Load("model.onnx")                     // or a graph file, .json
//	p, err := graphrun.Compile(g, graphrun.Options{})         // the zero Options are good defaults
//	out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": x}) // from any number of goroutines
//
// [Run] is the last two in one, for a graph that runs once. [Program.RunInto] writes results into
// tensors of the caller, and [tensor.Tensor.Release] gives the memory of results back.
//
// # Graphs
//
// A graph comes from a file ([Load], or a [Loader] that knows more: sizes, shapes, ops and operators of
// one's own), or is built in Go, on what [New] returns, by the functions of package op. It holds values
// by name: dtypes, shapes and strides are there as soon as it is built or loaded, as eager PyTorch
// would give them. Mistakes in a file are errors that begin with FILE:LINE:COL; mistakes in Go are
// collected in [graph.Graph.Err], which Compile returns.
//
// Ops are those of package kernels, which have the names, operands and attributes of PyTorch's aten.
// [Lookup] puts ops of one's own beside them: define one by [graph.Define], and hand the Lookup to
// [graph.New] or to a Loader.
//
// # Programs
//
// [Compile] chooses layouts and implementations by a [Strategy], inserts the copies that they need and
// drops those that nobody does, and prepares everything that a run needs. [Program.Report] tells what
// was done, and why, as data: what the command graphrun prints as plan. [Compare] measures programs that
// were compiled in different ways side by side, and [Diff] tells what they do differently. The result of
// a run is the same, bit for bit, for any number of workers.
//
// A size may be a symbol ("N" in a file, [graph.Dim] in Go). [Options.Sizes] fixes it for all runs;
// where nobody does, each run takes it from the shapes of its inputs, and the program is planned once
// for each set of sizes that it meets. Shapes may depend on data (nonzero, loops): such a graph runs in
// segments, each planned for every set of layouts and sizes that comes, as soon as these are known.
//
// # What fails
//
// Nothing panics for what a file does wrong, nor for what a caller does, but for a function of package op that
// is given no value of any graph. An error names the place or the node. A run
// that needs more memory than the process may have is refused before it starts, with a
// [MemoryError]. With [Options.KeepGoing] a run delivers whatever can be made, and its error is an
// [Incomplete] that traces every missing output to the node that failed.
package graphrun
