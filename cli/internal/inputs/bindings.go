package inputs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/arrays"
	"github.com/graphrun/graphrun/tensor"
)

// bindings are the sizes of symbols that --dim and the shapes of input arrays determine. For example, an array of the
// shape [8 3] for an input [N, 3] binds N to 8. A later array for an input [N, N] must then have the shape [8 8]. All
// maps are by symbol.
type bindings struct {
	sizes   map[string]int    // Loader.Sizes of the file, to which bindArray adds sizes
	inputOf map[string]string // the input whose array determined the size; absent for a size of --dim
	bounds  map[string]graph.Bounds
}

// bindArrays returns the graph of a file, with symbols bound by --dim and the shapes of input arrays. An array that
// does not match its input is rejected and binds no symbol. If all arrays that could bind a symbol are rejected,
// bindArrays rejects all inputs with this symbol: an assumed size would not be meaningful.
func bindArrays(ctx context.Context, f *graphrun.File, given *Arrays) (g *graph.Graph, err error) {
	inputs, loader := f.Inputs(), &f.Loader
	if err := given.bindSymbols(inputs, bindings{loader.Sizes, map[string]string{}, f.Symbols()}); err != nil {
		return nil, err
	}
	loader.Shapes, loader.UnavailableInputs = map[string][]int{}, given.Unavailable
	for name, a := range given.arrays {
		loader.Shapes[name] = a.shape()
	}
	g, given.GraphMistakes, err = command.BoundGraph(ctx, f)
	return g, err
}

// bindSymbols binds the symbols of all inputs with an array. Without --keep-going, it returns an error for the first
// input that must be rejected: see [bindArrays].
func (a *Arrays) bindSymbols(inputs []*graph.Value, b bindings) error {
	for _, v := range inputs {
		given, ok := a.arrays[v.Name]
		if !ok {
			continue
		}
		given.isText = arrays.IsText(given.meta, v)
		a.arrays[v.Name] = given
		if err := b.bindArray(v, given); err != nil {
			if err := a.reject(v.Name, err); err != nil {
				return err
			}
		}
	}
	a.rejectUnknownSizes(inputs, b)
	return nil
}

// rejectUnknownSizes rejects all inputs with a symbol that only rejected arrays could have bound.
func (a *Arrays) rejectUnknownSizes(inputs []*graph.Value, b bindings) {
	for _, v := range inputs {
		if a.Unavailable[v.Name] == nil {
			continue
		}
		for _, d := range v.Dims {
			if _, bound := b.sizes[d.Symbol]; d.Symbol != "" && !bound {
				a.UnknownSymbols = append(a.UnknownSymbols, d.Symbol)
			}
		}
	}
	for _, v := range inputs {
		i := slices.IndexFunc(v.Dims, func(d graph.Dim) bool { return slices.Contains(a.UnknownSymbols, d.Symbol) })
		if i >= 0 && a.Unavailable[v.Name] == nil {
			a.Unavailable[v.Name] = fmt.Errorf("its size %s is unknown: it depends on an input that cannot be read",
				v.Dims[i].Symbol)
		}
	}
}

// bindArray binds the symbols of input v to the sizes of array a. If it returns an error, it has bound no symbol.
func (b *bindings) bindArray(v *graph.Value, a array) error {
	meta, shape := a.meta, a.shape()
	if v.Dynamic { // the array determines the rank
		if !a.isText && !arrays.IsCompatible(meta.DType, v.Meta.DType) {
			return fmt.Errorf("the file holds %v, the graph wants %v", meta.DType, v.Meta.DType)
		}
		return nil
	}
	fitsDType := a.isText || arrays.IsCompatible(meta.DType, v.Meta.DType)
	fitsShape := len(shape) == len(v.Dims) // the sizes are compared below
	if v.Dims == nil {
		fitsShape = slices.Equal(shape, v.Meta.Shape)
	}
	if !fitsDType || !fitsShape {
		return b.mismatchError(v, meta)
	}
	newSizes := map[string]int{} // sizes of the symbols that this array binds
	for i, d := range v.Dims {
		size := shape[i]
		if d.IsNumber() && size != d.Size {
			return b.mismatchError(v, meta)
		}
		if d.Symbol == "" { // a number, or an expression, which binds no symbol
			continue
		}
		want, bound := newSizes[d.Symbol]
		boundBy := v.Name
		if !bound {
			want, bound = b.sizes[d.Symbol]
			boundBy = b.inputOf[d.Symbol] // empty for --dim
		}
		limits := b.bounds[d.Symbol]
		switch {
		case bound && size != want && boundBy == "":
			return b.mismatchError(v, meta)
		case bound && size != want:
			return fmt.Errorf("%s is %d here, but %d in input %q", d.Symbol, size, want, boundBy)
		case size < limits.Min || limits.Max > 0 && size > limits.Max:
			return fmt.Errorf("%s=%d is outside its bounds: min %d, max %d", d.Symbol, size, limits.Min, limits.Max)
		case !bound:
			newSizes[d.Symbol] = size
		}
	}
	maps.Copy(b.sizes, newSizes)
	for symbol := range newSizes {
		b.inputOf[symbol] = v.Name
	}
	return nil
}

// mismatchError returns the error for an array that differs in dtype or shape from the input.
func (b *bindings) mismatchError(v *graph.Value, meta tensor.Meta) error {
	var shape []string // of the input: Dims, or Meta.Shape if Dims is nil
	if v.Dims == nil {
		for _, n := range v.Meta.Shape {
			shape = append(shape, fmt.Sprint(n))
		}
	}
	for _, d := range v.Dims {
		switch n, bound := b.sizes[d.Symbol]; {
		case d.Symbol == "":
			shape = append(shape, d.String())
		case bound:
			shape = append(shape, fmt.Sprint(n))
		default:
			shape = append(shape, d.Symbol)
		}
	}
	return fmt.Errorf("the file holds %v%s, the graph wants %v[%s]", meta.DType, tensor.ListString(meta.Shape),
		v.Meta.DType, strings.Join(shape, ", "))
}
