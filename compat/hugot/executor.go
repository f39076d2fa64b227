package hugot

import (
	"context"
	"fmt"

	gomlx "github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/notimplemented"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	gomlxgraph "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
	gomlxcontext "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/knights-analytics/hugot/backends"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// hugot's Go pipelines run their model by an executor of GoMLX: it makes a graph for each combination of shapes of the
// inputs, and gives it to a backend. The backend of this file has one operation, which is the whole model: a graph has
// the inputs and a node for each output, and its execution is a run of the program. Shapes of the outputs are those of
// the results of the run; the nodes have none of their own.

// executor returns the executor of a program for hugot's pipelines.
func executor(p *graphrun.Program) (*backends.GoMLXModel, error) {
	b := &backend{program: p}
	for _, input := range p.Inputs() {
		if !input.HasDefault {
			b.inputs = append(b.inputs, input.Name)
		}
	}
	for _, output := range p.Outputs() {
		b.outputs = append(b.outputs, output.Name)
	}
	if len(b.inputs) == 0 || len(b.outputs) == 0 {
		return nil, fmt.Errorf("it has %d inputs and %d outputs; a pipeline needs both", len(b.inputs), len(b.outputs))
	}
	call := func(_ *gomlxcontext.Context, inputs []*gomlxgraph.Node) []*gomlxgraph.Node {
		nodes := make([]*gomlxgraph.Node, len(b.outputs))
		for i := range nodes {
			nodes[i] = gomlxgraph.Identity(inputs[0])
		}
		return nodes
	}
	exec, err := gomlxcontext.NewExec(b, gomlxcontext.New(), call)
	if err != nil {
		return nil, err
	}
	exec.SetMaxCache(-1) // any number of shapes: their graphs are small
	return &backends.GoMLXModel{Backend: b, Exec: exec, Call: call, MaxCache: -1, Destroy: exec.Finalize}, nil
}

// backend is a backend of GoMLX. Its buffers are tensors.
type backend struct {
	notimplemented.Backend
	program         *graphrun.Program
	inputs, outputs []string
}

func (b *backend) Name() string                                          { return "graphrun" }
func (b *backend) String() string                                        { return "graphrun" }
func (b *backend) Description() string                                   { return "one program of graphrun" }
func (b *backend) Builder(string) gomlx.Builder                          { return &builder{backend: b} }
func (b *backend) BufferFinalize(gomlx.Buffer) error                     { return nil }
func (b *backend) BufferDeviceNum(gomlx.Buffer) (gomlx.DeviceNum, error) { return 0, nil }

func (b *backend) BufferShape(buffer gomlx.Buffer) (shapes.Shape, error) {
	t := buffer.(*tensor.Tensor)
	if t.DType == tensor.Int64 {
		return shapes.Make(dtypes.Int64, t.Shape...), nil
	}
	return shapes.Make(dtypes.Float32, t.Shape...), nil
}

// BufferFromFlatData returns a tensor that shares the slice.
func (b *backend) BufferFromFlatData(_ gomlx.DeviceNum, flat any, shape shapes.Shape) (gomlx.Buffer, error) {
	switch data := flat.(type) {
	case []int64:
		return tensor.FromSlice(data, shape.Dimensions...)
	case []float32:
		return tensor.FromSlice(data, shape.Dimensions...)
	}
	return nil, fmt.Errorf("inputs of type %T are absent", flat)
}

func (b *backend) BufferToFlatData(buffer gomlx.Buffer, flat any) error {
	switch data := flat.(type) {
	case []int64:
		copy(data, tensor.Data[int64](buffer.(*tensor.Tensor)))
	case []float32:
		copy(data, tensor.Data[float32](buffer.(*tensor.Tensor)))
	}
	return nil
}

// builder makes an executable: nodes are shapes, and no node computes anything by itself.
type builder struct {
	notimplemented.Builder
	*backend
	names  []string
	shapes []shapes.Shape
}

func (b *builder) Name() string                              { return b.backend.Name() }
func (b *builder) OpShape(op gomlx.Op) (shapes.Shape, error) { return *op.(*shapes.Shape), nil }
func (b *builder) Identity(op gomlx.Op) (gomlx.Op, error)    { return op, nil }
func (b *builder) Finalize()                                 {}
func (b *builder) Inputs() ([]string, []shapes.Shape)        { return b.names, b.shapes }
func (b *builder) Outputs() []shapes.Shape                   { return nil }

func (b *builder) Parameter(name string, shape shapes.Shape, _ *gomlx.ShardingSpec) (gomlx.Op, error) {
	b.names, b.shapes = append(b.names, name), append(b.shapes, shape)
	return &shape, nil
}

func (b *builder) Compile([]gomlx.Op, []*gomlx.ShardingSpec) (gomlx.Executable, error) { return b, nil }

// Execute runs the program. Results are float32, as hugot's pipelines expect them.
func (b *builder) Execute(buffers []gomlx.Buffer, _ []bool, _ gomlx.DeviceNum) ([]gomlx.Buffer, error) {
	in := map[string]*tensor.Tensor{}
	for i, name := range b.inputs[:min(len(b.inputs), len(buffers))] {
		in[name] = buffers[i].(*tensor.Tensor)
	}
	out, err := b.program.Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	results := make([]gomlx.Buffer, len(b.outputs))
	for i, name := range b.outputs {
		t := out[name].Contiguous()
		if t.DType != tensor.Float32 {
			t = t.CopyTo(tensor.New(tensor.Float32, t.Shape...))
		}
		results[i] = t
	}
	return results, nil
}
