// Package graphrun runs dataflow graphs over strided tensors, with the layout rules of PyTorch. It loads, compiles and
// runs graphs. The packages that it uses are also public.
//
//	g, err := graphrun.Load(ctx, "model.onnx")                // or a graph file, .json
//	p, err := graphrun.Compile(ctx, g, graphrun.Options{})    // the zero Options are good defaults
//	x, err := tensor.FromSlice(pixels, 1, 3, 224, 224)        // shares the memory of the slice
//	out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": x}) // from any number of goroutines
//	scores := tensor.Data[float32](out["y"])                  // shares the memory of the tensor
//
// Each call stops if ctx ends. [Program.Inputs] and [Program.Outputs] have the names, dtypes and shapes. [Run] compiles
// and runs a graph once. [Program.RunInto] writes results into tensors of the caller, and [tensor.Tensor.Release]
// returns the memory of results to their program.
//
// # Graphs
//
// A graph is read from a file by [Load], or by a [Loader] with options such as sizes and further ops. It can also be
// built in Go: [New] returns an empty graph, and the functions of package op add nodes. Every value has a name. Its
// dtype, shape and strides are inferred immediately, by the rules of eager PyTorch. Mistakes in a file are errors that
// begin with FILE:LINE:COL. Mistakes in Go are collected; [graph.Graph.Err] and [Compile] return them.
//
// Ops have the names, operands and attributes of PyTorch's aten (package kernels). fusion.Define defines further ops;
// [Lookup] combines them with the built-in ones for [graph.New] or a Loader.
//
// # Programs
//
// [Compile] chooses layouts and implementations by a [Strategy], inserts the necessary copies, removes redundant ones,
// and compiles kernels. [Program.Report] returns the plan with its reasons, as data. The command graphrun plan prints
// it. Results have the same bits for any number of workers. Package inspect explains a program, package experiment
// compares several, and package cli is the command line as a library.
//
// A size may be a symbol ("N" in a file, [graph.Dim] in Go). [Options.Sizes] fixes the size for all runs. Otherwise
// each run takes the size from the shapes of its inputs, and a program is planned once for each class of sizes. If
// shapes depend on data (nonzero, loops), the graph runs in segments, and each segment is planned when its inputs are
// known.
//
// # Errors
//
// Mistakes in files and calls are returned as errors that name the place or the node. Only [tensor.Data] panics, on a
// tensor of another dtype or layout, and the functions of package op, if no argument is a value of a graph. A run that
// needs more memory than is available fails before it starts with a [MemoryError]. With [Options.KeepGoing] a run
// returns the outputs that can be computed, and its error is an [Incomplete] that traces every missing output to the
// failed node.
package graphrun
