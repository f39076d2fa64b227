package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// sources says where the values of a graph's inputs come from.
type sources struct {
	archive string   // .npz with an array for each input, empty if none
	files   []string // NAME=FILE.npy
	seed    uint64   // for inputs that no file gives
	makeUp  bool     // make up what files leave out, even where some are given
}

// read returns the arrays that files give, by input name.
func (s sources) read(g *graph.Graph) (map[string]*tensor.Tensor, error) {
	given := map[string]*tensor.Tensor{}
	if s.archive != "" {
		a, err := npz.Open(s.archive)
		if err != nil {
			return nil, wrong(err)
		}
		defer a.Close()
		has := map[string]bool{}
		for _, name := range a.Names() {
			has[name] = true
		}
		for _, v := range g.Inputs {
			if !has[v.Name] {
				continue
			}
			if given[v.Name], err = a.Read(v.Name); err != nil {
				return nil, wrong(err)
			}
		}
	}
	for _, f := range s.files {
		name, path, ok := strings.Cut(f, "=")
		if !ok {
			return nil, wrongf("--input %s: want NAME=FILE.npy", f)
		}
		if !isInput(g, name) {
			return nil, wrongf("--input %s: the graph has no input %q%s", f, name, didYouMean(name, inputNames(g)))
		}
		t, err := npz.ReadNPYFile(path)
		if err != nil {
			return nil, wrong(err)
		}
		given[name] = t
	}
	return given, nil
}

func isInput(g *graph.Graph, name string) bool {
	for _, v := range g.Inputs {
		if v.Name == name {
			return true
		}
	}
	return false
}

// dimsOf adds to dims the symbols that the shapes of given inputs bind. Those that dims
// holds already stay: place tells when a shape does not agree.
func dimsOf(g *graph.Graph, given map[string]*tensor.Tensor, dims map[string]int) error {
	from := map[string]string{}
	for _, v := range g.Inputs {
		t := given[v.Name]
		if t == nil || len(t.Shape) != len(v.Dims) {
			continue
		}
		for i, d := range v.Dims {
			if d.Symbol == "" {
				continue
			}
			n, bound := dims[d.Symbol]
			if !bound {
				dims[d.Symbol], from[d.Symbol] = t.Shape[i], v.Name
				continue
			}
			if n != t.Shape[i] && from[d.Symbol] != "" {
				return wrongf("%s is %d in input %q, but %d in input %q", d.Symbol, n, from[d.Symbol], t.Shape[i], v.Name)
			}
		}
	}
	return nil
}

// values returns a tensor for every input of a bound graph, in the layout that the graph
// declares: the given ones, and others made from the seed.
func (s sources) values(g *graph.Graph, given map[string]*tensor.Tensor) (*inputs, error) {
	if err := fits(&graph.Graph{Inputs: g.Inputs}); err != nil {
		return nil, err
	}
	in, integers := newInputs(s.seed), integersFor(g)
	for _, v := range g.Inputs {
		t := given[v.Name]
		if t == nil {
			if !s.makeUp && (s.archive != "" || len(s.files) > 0) {
				return nil, wrongf("input %q is missing: give it too, or --seed to make it up", v.Name)
			}
			in.madeUp = append(in.madeUp, v)
			in.values[v.Name] = madeUp(v.Meta, s.seed, v.Name, integers(v))
			continue
		}
		placed, err := place(t, v.Meta)
		if err != nil {
			return nil, wrongf("input %q: %w", v.Name, err)
		}
		in.values[v.Name] = placed
	}
	return in, nil
}

// place lays values, given in logical order, out as m says. A uint16 array stands for the
// bits of bfloat16, which numpy lacks.
func place(t *tensor.Tensor, m tensor.Meta) (*tensor.Tensor, error) {
	if t.DType == tensor.Uint16 && m.DType == tensor.BFloat16 {
		bits, err := t.View(t.Meta.WithDType(tensor.BFloat16))
		if err != nil {
			return nil, err
		}
		t = bits
	}
	if t.DType != m.DType || tensor.ListString(t.Shape) != tensor.ListString(m.Shape) {
		return nil, fmt.Errorf("the file holds %v%s, the graph wants %v%s",
			t.DType, tensor.ListString(t.Shape), m.DType, tensor.ListString(m.Shape))
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
	wide := tensor.Float64
	per := 1
	if m.DType.IsComplex() {
		wide, per = tensor.Complex128, 2
	}
	src := tensor.Zeros(wide, m.Shape...)
	if src.Numel() > 0 {
		flat := unsafe.Slice((*float64)(src.Pointer()), per*src.Numel())
		for i := range flat {
			switch {
			case m.DType == tensor.Bool:
				flat[i] = float64(r.IntN(2))
			case m.DType.IsIntegral(false):
				flat[i] = float64(integers[r.IntN(len(integers))])
			default:
				flat[i] = 2*r.Float64() - 1
			}
		}
	}
	out := tensor.Empty(m)
	tensor.CopyElements(out, src)
	return out
}
