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
// Package inspect explains a program, and package experiment compares several programs.
type Program struct{ program *program.Program }

// Internal is for packages of this module, such as inspect and experiment. Its result may change in any release.
func (p *Program) Internal() *program.Program {
	if p == nil {
		return nil
	}
	return p.program
}

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the declared dtype and shape. If its layout differs from the declared layout, Run copies it first.
// An output shares the storage of an input if it is a view of the input in the graph as written. Outputs may share
// storage with each other. If nodes fail, the error names the first failed node in the order of the graph. If ctx ends,
// Run returns its cause. No goroutine of the run outlives the call.
//
// The memory of an output belongs to the caller while the output, or a slice of its bytes, is in use.
// [tensor.Tensor.Release] returns the memory to the program for later runs. [Program.RunInto] writes to memory of the
// caller. Both avoid new memory, which costs as much as a simple computation if outputs are large.
//
// The shapes of the inputs determine the sizes of symbols. The first run with new sizes waits for their plan. The
// program keeps the plans that were used last: 16 MiB, or a sixteenth of the memory of its constants if that is more.
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return p.Internal().Run(ctx, in)
}

// RunInto runs the program as [Program.Run] does, and writes outputs into the tensors of out, by name. Outputs that out
// does not name are not returned.
//
// A tensor must have the dtype and shape of the output. If the shape depends on data, the mismatch may be found after
// other tensors have been written. A tensor may have any offset, and any strides under which no two elements overlap;
// bytes between its elements are not written. If the tensor has the strides of [Program.Run]'s output, a kernel writes
// it directly; otherwise RunInto copies the output. RunInto fails before it writes if a tensor shares memory with a
// constant or with another tensor of out. It also fails if a tensor shares memory with an input; the next paragraph
// describes the only exception. After an [*Incomplete] error, the contents are undefined only for the outputs that the
// error lists. After any other error during the run the contents of all tensors are undefined.
//
// A tensor of out may be the tensor of an input, if no output is a view of this input and no shapes depend on data.
// The run then overwrites the input. If the last reader of the input is a scatter or an elementwise op, it writes its
// result directly over the input: a decoder thus updates its cache without a copy. Otherwise the output is copied
// over the input after all steps.
//
// A run with sizes of an earlier run allocates nothing, apart from copied outputs and from the goroutines of workers.
// Several goroutines may call RunInto at once if each has its own tensors in out.
func (p *Program) RunInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	return p.Internal().RunInto(ctx, in, out)
}

// Inputs describes the inputs of a run, in the order of the model. Sizes that differ between runs have the symbols of
// the model as text.
func (p *Program) Inputs() []graph.Port {
	inputs, _ := p.Internal().Ports()
	return inputs
}

// Outputs describes the outputs of a run, in the order of the model.
func (p *Program) Outputs() []graph.Port {
	_, outputs := p.Internal().Ports()
	return outputs
}

// Metadata has the properties of the model's file: see [graph.Graph.Metadata].
func (p *Program) Metadata() map[string]string { return p.Internal().Metadata() }

// Caches lists the caches of [Options.Caches], with the recognized ones. It returns nil if there are none.
func (p *Program) Caches() []GrowingCache { return p.Internal().Caches() }

// CachesOf returns a copy of the inputs of a run in which each cache of [Options.Caches] is in new memory that has
// space for the capacity. A cache may have size 0 in the dimension that grows. All other tensors are those of in.
func (p *Program) CachesOf(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return p.Internal().CachesOf(in)
}

// Report describes the program for the sizes that [Compile] planned: steps, copies, costs, memory, and the effects of
// passes with their reasons. It has the keys of the document that graphrun plan --json prints. A graph whose shapes
// depend on data runs in segments. Compile plans only the first segment, and each run plans the other segments. The
// report therefore describes only the steps and copies of the first segment. Report returns nil if Compile did not make
// the program.
func (p *Program) Report() *report.Plan { return p.Internal().Report() }

// Graph returns the graph that runs, with the chosen layouts, copies and implementations, for the sizes that [Compile]
// planned. If shapes depend on data, it returns the inferred graph. The caller must not change the graph.
func (p *Program) Graph() *graph.Graph { return p.Internal().Planned() }

// Need returns the memory of a run with the sizes that [Compile] planned. If shapes depend on data, it returns the
// memory of the first segment.
func (p *Program) Need() Need { return p.Internal().Need() }
