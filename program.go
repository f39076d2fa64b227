package graphrun

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Program is a compiled graph, made by [Compile]. It may be used from several goroutines at once.
//
// Packages inspect and experiment take programs: inspect explains one, experiment compares several.
type Program program.Program

// inside converts to the type with the methods that are not public. The two types have the same underlying type, so
// that packages of this module can do the same.
func (p *Program) inside() *program.Program { return (*program.Program)(p) }

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the declared dtype and shape; one of another layout is copied first. An output that is a view of
// an input shares its storage; two outputs may share storage with each other. The error names the first node in the
// order of the graph that failed; a cancelled context returns its cause. No goroutine of the run outlives the call.
//
// The memory of an output belongs to the caller while the output, or a slice of its bytes, is in use.
// [tensor.Tensor.Release] returns it to the program for later runs; [Program.RunInto] writes to memory of the caller.
// Either saves the cost of new memory, which for large outputs is as high as that of a simple computation.
//
// Open sizes are taken from the shapes of the inputs: the first run with new sizes waits until they are planned.
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return p.inside().Run(ctx, in)
}

// RunInto is [Program.Run] that writes outputs into the caller's tensors, by name. Outputs that out lacks are not
// returned.
//
// A tensor must have the dtype and shape of the output; the error states both. If the shape depends on data, other
// tensors may have been written before the error. A tensor may have any strides under which no two elements overlap,
// and any offset; bytes between its elements are not written. If its strides are those of [Program.Run]'s output, a
// kernel writes it directly, else one copy does. A tensor that shares memory with an input, a constant or another
// tensor of out is an error before anything is written. After any other error the contents of the tensors are
// undefined; with [Options.KeepGoing], so are those of the outputs that the [*Incomplete] lists.
//
// Several goroutines may call it at once, each with tensors of its own.
func (p *Program) RunInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	return p.inside().RunInto(ctx, in, out)
}

// Report describes the program for the sizes that [Compile] planned: steps, copies, costs, memory, and the effects of
// passes with their reasons. It has the keys of the document that graphrun plan --json prints. A graph whose shapes
// depend on data runs in segments, most of which are planned in runs: copies and steps are those of the one segment
// whose shapes are known before. It is nil for a program that Compile did not make.
func (p *Program) Report() *report.Plan { return p.inside().Report() }

// Graph returns the graph that runs, with the chosen layouts, copies and implementations, for the sizes that [Compile]
// planned; if shapes depend on data, the inferred graph. It must not be changed.
func (p *Program) Graph() *graph.Graph { return p.inside().Planned() }

// Need returns the memory of a run at the sizes that [Compile] planned; if shapes depend on data, of the one segment
// whose shapes are known before runs.
func (p *Program) Need() Need { return p.inside().Need() }
