package backend_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestKernels runs ops on the interpreter, and compares the results with those of the reference.
func TestKernels(t *testing.T) {
	d := backend.New(software.Open())
	x, y := tensor.New(tensor.Float32, 3, 5), tensor.New(tensor.Float32, 3, 5)
	transposed := y.WithStrides([]int{1, 3})
	for _, c := range []struct {
		op    string
		attrs graph.Attrs
		in    []any // tensor.Meta, or a number
		host  int   // number of last operands that are on the host
		fill  int   // number of bytes that are staged for upload before the launch
		near  bool  // the order of sums differs from the reference, so results may differ slightly
	}{
		{op: "relu", in: []any{x}},
		{op: "add", in: []any{x, transposed}},
		{op: "mul", in: []any{x, 2.5}},
		{op: "sub", in: []any{x, tensor.New(tensor.Float32)}, host: 1},
		// The second operand on the host exceeds the limit of staged bytes, 64 MiB.
		{op: "where", in: []any{tensor.New(tensor.Bool, 5), tensor.New(tensor.Float32), tensor.New(tensor.Float32)}, host: 2,
			fill: 64<<20 - 32<<10},
		{op: "where", in: []any{tensor.New(tensor.Bool, 5), x, 1.0}},
		{op: "clone", in: []any{transposed}, attrs: graph.Attrs{"memory_format": "contiguous"}},
		{op: "sum", in: []any{transposed}, attrs: graph.Attrs{"dim": []int{1}}, near: true},
		// The rows are cut into pieces, whose results are in scratch memory.
		{op: "sum", in: []any{tensor.New(tensor.Float32, 2, 1<<14+6)}, attrs: graph.Attrs{"dim": []int{1}}, near: true},
		{op: "matmul", in: []any{x, tensor.New(tensor.Float32, 5, 4).WithStrides([]int{1, 5})}, near: true},
		{op: "addmm", in: []any{tensor.New(tensor.Float32), tensor.New(tensor.Float32, 4, 3), x}, near: true},
		{op: "embedding", in: []any{x, tensor.New(tensor.Int64, 4)}},
	} {
		t.Run(c.op, func(t *testing.T) {
			op := kernels.Lookup(c.op)
			attrs, err := op.Schema.Decode(c.attrs, nil)
			require.NoError(t, err)
			call := &graph.Call{Attrs: attrs}
			operands := make([]*tensor.Tensor, len(c.in))
			for i, in := range c.in {
				meta, ok := in.(tensor.Meta)
				if !ok {
					call.In = append(call.In, graph.Arg{Kind: graph.NumberArg, Number: tensor.FloatScalar(in.(float64))})
					operands[i] = call.In[i].Number.Tensor(tensor.Float32)
					continue
				}
				call.In = append(call.In, graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()}))
				operands[i] = tensor.Empty(meta)
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for k := range operands[i].Storage().Bytes() {
					switch {
					case meta.DType == tensor.Bool:
						operands[i].Storage().Bytes()[k] = byte(rng.IntN(2))
					case meta.DType == tensor.Int64:
						operands[i].Storage().Bytes()[k] = byte(1 - min(k%8, 1)) // indices of 1
					case k%4 == 0:
						*(*float32)(unsafe.Pointer(&operands[i].Storage().Bytes()[k])) = float32(rng.NormFloat64())
					}
				}
			}
			res, err := op.Infer(call)
			require.NoError(t, err)
			call.Out = []tensor.Meta{res[0].Meta()}
			want, err := op.Ref(call, operands)
			require.NoError(t, err)

			impl := d.Impl(op)
			walks := impl.Walks(call, nil)
			require.NotEmpty(t, walks)
			kernel, err := impl.Lower(call)
			require.NoError(t, err)
			q := d.NewQueue()
			m := &graph.Mem{Queue: q}
			on := func(meta tensor.Meta) graph.DeviceAddress {
				memory, err := d.Alloc(meta.Bytes())
				require.NoError(t, err)
				t.Cleanup(memory.Free)
				return graph.DeviceAddress{Memory: memory}
			}
			m.Addresses, m.Ptrs = append(m.Addresses, on(call.Out[0])), append(m.Ptrs, nil)
			for i, x := range operands {
				if i >= len(operands)-c.host {
					m.Addresses, m.Ptrs = append(m.Addresses, graph.DeviceAddress{}), append(m.Ptrs, x.Pointer())
					continue
				}
				m.Addresses, m.Ptrs = append(m.Addresses, on(x.Meta)), append(m.Ptrs, nil)
				require.NoError(t, q.Upload(m.Addresses[1+i], x.Storage().Bytes()))
			}
			if kernel.Scratch > 0 {
				m.Addresses = append(m.Addresses, on(tensor.New(tensor.Uint8, kernel.Scratch)))
			}
			require.NoError(t, q.Wait())
			require.NoError(t, q.Upload(on(tensor.New(tensor.Uint8, c.fill)), make([]byte, c.fill)))
			require.NoError(t, kernel.Phases[0].Run(m, 0))

			v := &graph.Value{Meta: call.Out[0], Type: call.Out[0].Type()}
			download, err := d.Download().Lower(&graph.Call{In: []graph.Arg{graph.ArgOf(v)}, Out: call.Out})
			require.NoError(t, err)
			got := tensor.Empty(call.Out[0])
			m.Ptrs, m.Addresses = []unsafe.Pointer{got.Pointer(), nil}, []graph.DeviceAddress{{}, m.Addresses[0]}
			require.NoError(t, download.Phases[0].Run(m, 0))
			if c.near {
				assert.InDeltaSlice(t, floats(want[0]), floats(got), 1e-3)
			} else {
				assert.Equal(t, want[0].Contiguous().Storage().Bytes(), got.Contiguous().Storage().Bytes())
			}
		})
	}
}

// floats returns the elements of a tensor of float32.
func floats(t *tensor.Tensor) []float32 {
	t = t.Contiguous()
	return unsafe.Slice((*float32)(t.Pointer()), t.Numel())
}

// TestEpilogueWork: an epilogue that the kernel of a product cannot apply is priced as a step of its own.
func TestEpilogueWork(t *testing.T) {
	d := backend.New(software.Open())
	calls, err := conform.Fused(kernels.Lookup, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	for i, fused := range calls {
		impl := d.Impl(fused.Op)
		walks := impl.Walks(fused.Call, nil)
		require.NotEmpty(t, walks)
		steps := 1.0
		if i == len(calls)-1 {
			steps = 2
		}
		assert.InDelta(t, steps, impl.Work(fused.Call, walks[0]).StartedSteps, 0, fused.Op.Name)
	}
}

// failing is a device that cannot run steps.
type failing struct{ device.Device }

func (failing) Run([]device.Step) error { return errors.New("the device is lost") }

// TestQueueError checks that a queue keeps the error of a step until Reset.
func TestQueueError(t *testing.T) {
	d := backend.New(failing{software.Open()})
	memory, err := d.Alloc(4)
	require.NoError(t, err)
	defer memory.Free()
	q := d.NewQueue()
	require.NoError(t, q.Upload(graph.DeviceAddress{Memory: memory}, make([]byte, 4)))
	for range 2 {
		assert.EqualError(t, q.Wait(), "the device is lost")
	}
	q.Reset()
	assert.NoError(t, q.Wait())
}

// TestNoDevice checks the error of a driver that finds no device.
func TestNoDevice(t *testing.T) {
	_, err := backend.First(nil, nil)
	assert.EqualError(t, err, "the driver has no device")
}

// TestNoKernel checks calls that have no kernel on the device, and so run on the host.
func TestNoKernel(t *testing.T) {
	d := backend.New(software.Open())
	x := tensor.New(tensor.Float32, 2, 3)
	ints := tensor.New(tensor.Int64, 2, 2)
	square := tensor.New(tensor.Float32, 2, 2)
	for name, in := range map[string][]tensor.Meta{"matmul": {ints, ints}, "nonzero": {x}, "det": {square}} {
		op := kernels.Lookup(name)
		call := &graph.Call{}
		for _, meta := range in {
			call.In = append(call.In, graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()}))
		}
		var err error
		call.Attrs, err = op.Schema.Decode(nil, nil)
		require.NoError(t, err)
		call.Out = []tensor.Meta{tensor.New(tensor.Float32, 2, 2)}
		assert.Empty(t, d.Impl(op).Walks(call, nil), name)
	}
}
