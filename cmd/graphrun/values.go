package main

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// sources says where the values of a graph's inputs come from.
type sources struct {
	archive string   // .npz with an array for each input, empty if none
	files   []string // NAME=FILE.npy
	seed    uint64   // for inputs that no file gives
	makeUp  bool     // make up what files leave out, even where some are given

	keepGoing bool // past constants that cannot be read and nodes that are wrong
}

// dimsOf adds to dims the symbols that the shapes of given inputs bind. Those that dims
// holds already stay: place tells when a shape does not agree.
func dimsOf(g *graph.Graph, given *given, dims map[string]int) error {
	from := map[string]string{}
	for _, v := range g.Inputs {
		t, ok := given.arrays[v.Name]
		if !ok || len(t.meta.Shape) != len(v.Dims) {
			continue
		}
		for i, d := range v.Dims {
			if d.Symbol == "" {
				continue
			}
			n, bound := dims[d.Symbol]
			if !bound {
				dims[d.Symbol], from[d.Symbol] = t.meta.Shape[i], v.Name
				continue
			}
			if n != t.meta.Shape[i] && from[d.Symbol] != "" {
				return wrongf("%s is %d in input %q, but %d in input %q", d.Symbol, n, from[d.Symbol], t.meta.Shape[i], v.Name)
			}
		}
	}
	return nil
}

// values returns a tensor for every input of a bound graph, in the layout that the graph
// declares: the given ones, and others made from the seed. No data are read before the
// dtypes and shapes of all are what the graph wants, and all fit into memory. given may be
// nil, and is closed.
func (s sources) values(g *graph.Graph, given *given) (*inputs, error) {
	defer given.close()
	if err := s.checkInputs(g, given); err != nil {
		return nil, err
	}
	in, integers := newInputs(s.seed), integersFor(g)
	in.extra = given.others()
	for _, v := range g.Inputs {
		a, ok := given.of(v.Name)
		if !ok {
			in.madeUp = append(in.madeUp, v)
			in.values[v.Name] = madeUp(v.Meta, s.seed, v.Name, integers(v))
			continue
		}
		t, err := a.read()
		if err == nil {
			in.values[v.Name], err = place(t, v.Meta)
		}
		if err != nil {
			return nil, wrongf("input %q: %w", v.Name, err)
		}
	}
	return in, nil
}

// checkInputs refuses arrays of another dtype or shape than the graph's, inputs that nobody
// gives, and more of them than there is memory for.
func (s sources) checkInputs(g *graph.Graph, given *given) error {
	var sizes graphrun.Need
	for _, v := range g.Inputs {
		sizes.AddInput(v)
		a, ok := given.of(v.Name)
		switch {
		case ok && !serves(a.meta, v.Meta):
			return wrongf("input %q: the file holds %v%s, the graph wants %v%s", v.Name,
				a.meta.DType, tensor.ListString(a.meta.Shape), v.Meta.DType, tensor.ListString(v.Meta.Shape))
		case !ok && !s.makeUp && (s.archive != "" || len(s.files) > 0):
			return wrongf("input %q is missing%s: give it too, or --seed to make it up", v.Name, given.insteadOf(v.Name))
		}
	}
	return sizes.Check(0, 0)
}

// serves reports whether an array can stand for an input. A uint16 array may hold the bits
// of bfloat16, which numpy lacks.
func serves(a, m tensor.Meta) bool {
	bits := a.DType == tensor.Uint16 && m.DType == tensor.BFloat16
	return (a.DType == m.DType || bits) && slices.Equal(a.Shape, m.Shape)
}

// place lays values, given in logical order, out as m says.
func place(t *tensor.Tensor, m tensor.Meta) (_ *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	if t.DType != m.DType {
		if t, err = t.View(t.Meta.WithDType(m.DType)); err != nil {
			return nil, err
		}
	}
	if t.SameLayout(m) && t.Offset == m.Offset {
		return t, nil
	}
	out := tensor.Empty(m)
	tensor.CopyElements(out, t)
	return out, nil
}

// madeUp returns values that depend on seed, name and logical index only, whatever the
// layout: reals and complex parts uniform in [-1, 1), each integer as likely, fair bools.
func madeUp(m tensor.Meta, seed uint64, name string, integers []int64) *tensor.Tensor {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	wide, per := tensor.Float64, 1
	if m.DType.IsComplex() {
		wide, per = tensor.Complex128, 2
	}
	out := tensor.Empty(m)
	rows := out
	if !m.IsContiguous() {
		rows = tensor.Empty(tensor.New(m.DType, m.Shape...))
	}
	// A block at a time: all values as float64 would take many times the memory of bytes.
	n, size := rows.Numel(), m.DType.Size()
	flat := make([]float64, per*min(n, 1<<12))
	convert := tensor.Converter(m.DType, wide)
	for at := 0; at < n; at += len(flat) / per {
		block := flat[:per*min(n-at, len(flat)/per)]
		for i := range block {
			switch {
			case m.DType == tensor.Bool:
				block[i] = float64(r.IntN(2))
			case m.DType.IsIntegral(false):
				block[i] = float64(integers[r.IntN(len(integers))])
			default:
				block[i] = 2*r.Float64() - 1
			}
		}
		to := unsafe.Add(rows.Pointer(), at*size)
		convert(to, unsafe.Pointer(&block[0]), size, wide.Size(), len(block)/per)
	}
	if rows != out {
		tensor.CopyElements(out, rows)
	}
	return out
}
