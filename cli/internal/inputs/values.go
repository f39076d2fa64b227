// Package inputs reads the inputs of a graph from files, and generates random values for the other inputs.
package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/arrays"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Sources holds the flags that specify the values of inputs.
type Sources struct {
	archive     string   // the .npz file of --inputs; empty for none
	files       []string // the values of --input, NAME=FILE.npy
	Seed        uint64   // the seed of generated values
	isSeedGiven bool     // whether --seed is given, so that inputs without an array are generated

	KeepGoing bool            // whether unreadable constants and invalid nodes are skipped
	Cache     *graphrun.Cache // stores the weights of the model; nil for none
}

// ReadValues returns a tensor for every input of a bound graph, in the input's declared layout. It reads the inputs
// whose arrays are given, and generates the others, except inputs with a default. Before it reads data, it checks that
// all inputs fit into memory. It closes given. With --keep-going it adds unavailable inputs to given.Unavailable.
func (s Sources) ReadValues(g *graph.Graph, given *Arrays) (*Set, error) {
	defer given.Close()
	if err := checkMemory(g, given); err != nil {
		return nil, err
	}
	for _, name := range sorted.Keys(given.arrays) {
		if !isInput(g.Inputs, name) && given.Unavailable[name] == nil {
			return nil, exit.UsageErrorf("input %q: its default cannot be overridden: the operators that read it need its "+
				"value before the run", name)
		}
	}
	set, integers := newSet(s.Seed), integersFor(g)
	set.unusedNote = given.unusedArrays()
	for _, v := range g.Inputs {
		if given.Unavailable[v.Name] != nil {
			continue
		}
		a, isGiven := given.arrays[v.Name]
		switch {
		case isGiven:
			v.Default = nil // plans for the given value
		case v.Default != nil:
			continue
		}
		t, err := s.value(set, v, a, g.Labels[v.Name], integers)
		switch {
		case err != nil:
			if err := given.reject(v.Name, err); err != nil {
				return nil, err
			}
			continue
		case !isGiven:
			set.Generated = append(set.Generated, v)
		}
		set.Values[v.Name] = t
	}
	return set, nil
}

// value reads array a for input v, or generates a tensor if a is empty. Strings are encoded by the labels of the
// input. integers returns the possible values of the integers of a generated input.
func (s Sources) value(set *Set, v *graph.Value, a array, labels graph.Labels,
	integers func(*graph.Value) []int64) (t *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	if a.read == nil {
		if labels.IsText() && len(labels.Texts.List()) == 0 {
			return generateTexts(v.Meta, s.Seed, v.Name, integers(v), labels)
		}
		return generate(v.Meta, s.Seed, v.Name, integers(v)), nil
	}
	if t, err = a.read(); err != nil {
		return nil, err
	}
	if a.isText {
		if !labels.IsText() {
			return nil, fmt.Errorf("the file holds strings or %v%s, the graph wants %v%s", t.DType,
				tensor.ListString(t.Shape), v.Meta.DType, tensor.ListString(v.Meta.Shape))
		}
		if t, err = arrays.Encode(t, labels, v.Meta.Shape); err != nil {
			return nil, err
		}
	}
	return withMeta(t, v.Meta)
}

// checkMemory returns an error if the inputs do not fit into memory. With --keep-going it adds inputs to
// given.Unavailable until the other inputs fit.
func checkMemory(g *graph.Graph, given *Arrays) error {
	var need graphrun.Need
	for _, v := range g.Inputs {
		need.AddInput(v)
	}
	const limit, held = 0, 0 // the limit is the available memory, and no input is in memory yet
	err := need.Check(limit, held)
	var memoryErr *graphrun.MemoryError
	if given.Unavailable == nil || !errors.As(err, &memoryErr) {
		return err
	}
	dropInputs(g, given, memoryErr.Need.Total()-memoryErr.Left, err)
	return nil
}

// dropInputs adds inputs to given.Unavailable, with err as the reason, until their total size is at least excess bytes.
// It drops inputs without readers first, and then the largest inputs.
func dropInputs(g *graph.Graph, given *Arrays, excess int, err error) {
	bytesOf := func(v *graph.Value) int {
		var need graphrun.Need
		need.AddInput(v)
		return need.Inputs
	}
	counts := readerCounts(g)
	dropOrder := slices.Clone(g.Inputs)
	sorted.Func(dropOrder, func(a, b *graph.Value) int {
		return cmp.Or(min(counts[a], 1)-min(counts[b], 1), cmp.Compare(bytesOf(b), bytesOf(a)))
	})
	for _, input := range dropOrder {
		if excess <= 0 {
			break
		}
		excess -= bytesOf(input)
		given.Unavailable[input.Name] = err
	}
}

// readerCounts returns, for each value, the number of operands and outputs that read the value.
func readerCounts(g *graph.Graph) map[*graph.Value]int {
	counts := map[*graph.Value]int{}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			counts[a.Value]++
		}
		for _, v := range n.AttrRefs() {
			counts[v]++
		}
	}
	for _, output := range g.Outputs {
		counts[output.Value]++
	}
	return counts
}

// withMeta returns a tensor with the elements of t, and the dtype and layout of meta: t itself, or a copy in new
// memory. If the dtypes differ, the bits of t's elements are interpreted as elements of meta's dtype.
func withMeta(t *tensor.Tensor, meta tensor.Meta) (_ *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	if t.DType != meta.DType {
		if t, err = t.View(t.Meta.WithDType(meta.DType)); err != nil {
			return nil, err
		}
	}
	if t.SameLayout(meta) && t.Offset == meta.Offset {
		return t, nil
	}
	out := tensor.Empty(meta)
	tensor.CopyElements(out, t)
	out.SetTexts(t.Texts())
	return out, nil
}

// generateTexts returns a tensor of strings: the decimal numbers of the integers that [generate] chooses.
func generateTexts(meta tensor.Meta, seed uint64, name string, integers []int64, labels graph.Labels) (
	*tensor.Tensor, error) {
	numbers := tensor.Data[int64](generate(tensor.New(tensor.Int64, meta.Shape...), seed, name, integers))
	list := make([]string, len(numbers))
	for i, number := range numbers {
		list[i] = strconv.FormatInt(number, 10)
	}
	t, err := labels.Encode(list, meta.Shape...)
	if err != nil {
		return nil, err
	}
	return withMeta(t, meta)
}

// generate returns a tensor of random elements. An element depends on the seed, the name of the input and the element's
// row-major index. It depends on the layout only if elements share memory. Real numbers and the parts of complex
// numbers are uniform in [-1, 1). Bools are uniform. An integer is chosen uniformly from the given integers.
func generate(meta tensor.Meta, seed uint64, name string, integers []int64) *tensor.Tensor {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	rng := rand.New(rand.NewPCG(seed, hash.Sum64()))
	out := tensor.Empty(meta)
	rowMajor := out
	switch {
	case meta.IsContiguous(): // out is row-major itself
	case meta.Numel() > meta.Extent(): // elements share memory: each address gets one random element
		rowMajor = tensor.Must(tensor.FromStorage(tensor.New(meta.DType, meta.Extent()), out.Storage()))
	default: // another dense or padded layout: the elements are copied below
		rowMajor = tensor.Empty(tensor.New(meta.DType, meta.Shape...))
	}
	fillRandom(rowMajor, rng, integers)
	if rowMajor.Storage() != out.Storage() {
		tensor.CopyElements(out, rowMajor)
	}
	return out
}

// fillRandom sets the elements of a contiguous tensor as [generate] specifies. It generates blocks of float64 numbers
// and converts them to the dtype of the tensor; all numbers at once would take eight times the memory of a tensor of
// bytes.
func fillRandom(t *tensor.Tensor, rng *rand.Rand, integers []int64) {
	randomDType, partCount := tensor.Float64, 1 // the dtype of random elements, and its number of float64 parts
	if t.DType.IsComplex() {
		randomDType, partCount = tensor.Complex128, 2
	}
	const maxBlock = 1 << 12 // elements
	n, elementSize := t.Numel(), t.DType.Size()
	buffer := make([]float64, partCount*min(n, maxBlock))
	convert := tensor.Converter(t.DType, randomDType)
	for start := 0; start < n; start += len(buffer) / partCount {
		block := buffer[:partCount*min(n-start, len(buffer)/partCount)]
		for i := range block {
			switch {
			case t.DType == tensor.Bool:
				block[i] = float64(rng.IntN(2))
			case t.DType.IsIntegral(false): // integers, without bool
				block[i] = float64(integers[rng.IntN(len(integers))])
			default:
				block[i] = 2*float64(rng.Float64()) - 1
			}
		}
		dst := unsafe.Add(t.Pointer(), start*elementSize)
		convert(dst, unsafe.Pointer(&block[0]), elementSize, randomDType.Size(), len(block)/partCount)
	}
}
