//go:build linux || darwin

package kernels_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// rooms holds memory between pages that cannot be accessed, one piece per operand.
type rooms [][]byte

const roomBytes = 1 << 20

// place returns memory for a layout that ends directly before an inaccessible page, or begins directly behind one.
func (r *rooms) place(t *testing.T, k int, m tensor.Meta, behind bool) (memory []byte) {
	for len(*r) <= k {
		*r = append(*r, jittest.Guarded(t, roomBytes))
	}
	n := m.Extent() * m.DType.Size()
	if n > roomBytes {
		t.Fatalf("%v does not fit", m)
	}
	if behind {
		return (*r)[k][:n]
	}
	return (*r)[k][roomBytes-n:]
}

// first returns the address of the first element of a layout that spans memory.
func first(m tensor.Meta, memory []byte) unsafe.Pointer {
	if len(memory) == 0 {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(memory)), m.Offset*m.DType.Size())
}

// run runs a kernel with operands and results between inaccessible pages. It returns the results' memory, which is
// filled with other bytes first.
func (r *rooms) run(t *testing.T, k compiledCall, in []*tensor.Tensor, behind bool) ([][]byte, error) {
	m := k.NewMem()
	var outs [][]byte
	for o, meta := range k.call.Out {
		memory := r.place(t, o, meta, behind)
		for i := range memory {
			memory[i] = 0x55
		}
		outs = append(outs, memory)
		m.Ptrs = append(m.Ptrs, first(meta, memory))
	}
	for i, x := range in {
		var at unsafe.Pointer
		if k.EmbeddedOperands != nil && k.EmbeddedOperands[i] != nil {
			at = k.EmbeddedOperands[i].Pointer()
		} else if x != nil {
			meta := x.Meta
			memory := r.place(t, len(outs)+i, meta, behind != (i%2 > 0))
			copy(memory, x.Storage().Bytes())
			at = first(meta, memory)
		}
		m.Ptrs = append(m.Ptrs, at)
	}
	for _, ph := range k.Phases {
		for chunk := range ph.Chunks {
			if err := ph.Run(m, chunk); err != nil {
				return nil, err
			}
		}
	}
	return outs, nil
}

// TestGuarded runs the examples of every op in every dtype between inaccessible pages, and compares the results with
// those in ordinary memory.
func TestGuarded(t *testing.T) {
	testsize.Long(t)
	ran := map[string]bool{}
	var r rooms
	for _, op := range kernels.All() {
		for i, ex := range op.Examples {
			for _, d := range tensor.DTypes() {
				draw := kerneltest.IndexValues(rand.New(rand.NewPCG(3, uint64(i))))
				for _, metas := range withDTypes(ex.In, d) {
					in := make([]*tensor.Tensor, len(metas))
					for k, m := range metas {
						if m.DType != tensor.Invalid {
							in[k] = kerneltest.Filled(m, draw)
						}
					}
					for _, k := range kernelsOf(op, ex.Attrs, metas) {
						if err := r.compare(t, k, in); err != nil {
							t.Errorf("%s %v %v: %v", op.Name, ex.Attrs, metas, err)
						}
						ran[op.Name] = true
					}
				}
			}
		}
	}
	if len(ran) < 250 {
		t.Errorf("only the kernels of %d ops were run", len(ran))
	}
}

// compare runs a kernel in ordinary memory and between inaccessible pages, and compares the results.
func (r *rooms) compare(t *testing.T, k compiledCall, in []*tensor.Tensor) error {
	var want []*tensor.Tensor
	for _, m := range k.call.Out {
		x := tensor.Empty(m)
		for i := range x.Storage().Bytes() {
			x.Storage().Bytes()[i] = 0x55
		}
		want = append(want, x)
	}
	wantErr := kerneltest.RunKernel(k.Kernel, &k.call, in, want)
	for _, behind := range []bool{false, true} {
		got, err := r.run(t, k, in, behind)
		if (err != nil) != (wantErr != nil) {
			return fmt.Errorf("%v between guards, %v elsewhere", err, wantErr)
		}
		for o := range got {
			if !bytes.Equal(got[o], want[o].Storage().Bytes()[:len(got[o])]) {
				return fmt.Errorf("result %d is not the same between guards", o)
			}
		}
	}
	return nil
}

// TestCompiledCalls runs ops that have an expression on layouts of all kinds between inaccessible pages, and compares
// the bits with the interpreter's on dense operands.
func TestCompiledCalls(t *testing.T) {
	testsize.Long(t)
	ops, calls := map[string]bool{}, 0
	var r rooms
	for _, op := range kernels.All() {
		if op.Kind != graph.FollowsOperands {
			continue
		}
		for i, d := range tensor.DTypes() {
			for round := range testsize.Of(1, 2) * len(op.Examples) {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(100+round)))
				ex := op.Examples[round%len(op.Examples)]
				lists := withDTypes(ex.In, d)
				metas := lists[rng.IntN(len(lists))]
				for k, shape := range randomShapes(rng, len(metas)) {
					if metas[k].DType != tensor.Invalid {
						metas[k] = layoutsOf(rng, metas[k].DType, shape)
					}
				}
				for _, k := range kernelsOf(op, ex.Attrs, metas) {
					if k.call.Out[0].Numel() == 0 || len(k.call.Out) > 1 {
						continue
					}
					list := listings(k)
					if len(list) != 1 {
						continue
					}
					if err := r.checkCall(t, rng, k, list[0], metas); err != nil {
						t.Fatalf("%s %v %v: %v", op.Name, ex.Attrs, metas, err)
					}
					ops[op.Name] = true
					calls++
				}
			}
		}
	}
	if len(ops) < 100 || calls < testsize.Of(1500, 3000) {
		t.Errorf("only %d calls of %d ops were compared", calls, len(ops))
	}
}

// checkCall compares a call on special numbers with the interpreter's result for each element.
func (r *rooms) checkCall(t *testing.T, rng *rand.Rand, k compiledCall, listing expr.Listing,
	metas []tensor.Meta) error {
	out := k.call.Out[0]
	in := make([]*tensor.Tensor, len(metas))
	var ptrs []unsafe.Pointer
	for i, m := range metas {
		if m.DType == tensor.Invalid {
			continue
		}
		in[i] = tensor.Empty(m)
		copy(in[i].Storage().Bytes(), jittest.RandomElements(rng, m.DType, m.Extent()))
		ptrs = append(ptrs, unsafe.Pointer(unsafe.SliceData(elements(in[i], out.Shape))))
	}
	got, err := r.run(t, k, in, rng.IntN(2) == 0)
	if err != nil {
		return err
	}
	l := &expr.Loop{Code: listing.Loop.Code, Uniform: make([]bool, len(ptrs))}
	if listing.Assembly != nil {
		if l, err = vector.Expanded(l, machine.HostFeatures()); err != nil {
			return err
		}
	}
	interp, err := interp.New(l)
	if err != nil {
		return err
	}
	e := out.DType.Size()
	want := make([]byte, out.Numel()*e)
	ptrs = slices.Insert(ptrs, 0, unsafe.Pointer(&want[0]))
	interp.Run(nil, ptrs, make([]int, len(ptrs)), nil, out.Numel(), 1)
	n := 0
	out.Walk(func(at int) {
		if x, y := got[0][(out.Offset+at)*e:][:e], want[n*e:n*e+e]; err == nil && !jittest.Same(out.DType, x, y) {
			err = fmt.Errorf("to %v, element %d: % x, want % x", out, n, x, y)
		}
		n++
	})
	return err
}

// elements returns the elements of a tensor broadcast to a shape, in row-major order.
func elements(x *tensor.Tensor, shape []int) (list []byte) {
	m, err := x.Meta.Expand(shape)
	if err != nil {
		panic(err)
	}
	e := m.DType.Size()
	from := x.Storage().Bytes()[m.Offset*e:]
	m.Walk(func(at int) { list = append(list, from[at*e:at*e+e]...) })
	return list
}
