package graphrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// rowSymbol is the key of [Loader.Sizes] that sets the number of rows in a file whose sizes are all numbers (no
// symbols).
const rowSymbol = "N"

// rowCount is a number of rows that the caller requests instead of the number in the file: see [Loader.Sizes]. A row is
// a slice of an input along one dimension, usually the batch dimension.
type rowCount struct {
	key   string         // the first key of Loader.Sizes that sets this number, such as N or x.0
	count int            // the number of rows
	dims  map[string]int // indexed by input: the dimension of its rows
}

// extractRowCount removes from Loader.Sizes the keys that change a number of rows, and sets f.rows.
func (f *File) extractRowCount() error {
	symbols, sizes := f.signature.Symbols, maps.Clone(f.Loader.Sizes)
	for _, key := range sorted.Keys(f.Loader.Sizes) {
		if _, isSymbol := symbols[key]; isSymbol {
			continue
		}
		dims := f.rowDims(key)
		if dims == nil {
			continue // a later check reports the key as an unknown symbol
		}
		count := sizes[key]
		switch {
		case count < 1 && key == rowSymbol:
			return fmt.Errorf("%s=%d: the number of rows must be at least 1 (the file has no symbol %s, so %s sets a number "+
				"of rows)", key, count, key, key)
		case count < 1:
			return fmt.Errorf("%s=%d: the number of rows must be at least 1", key, count)
		case f.rows == nil:
			f.rows = &rowCount{key, count, map[string]int{}}
		case f.rows.count != count:
			return fmt.Errorf("%s=%d and %s=%d: all inputs with rows must have the same number of rows", f.rows.key,
				f.rows.count, key, count)
		}
		for input, dim := range dims {
			if other, exists := f.rows.dims[input]; exists && other != dim {
				return fmt.Errorf("%s=%d: the rows of input %q are along dimension %d, but another key sets dimension %d", key,
					count, input, dim, other)
			}
		}
		maps.Copy(f.rows.dims, dims)
		delete(sizes, key)
	}
	f.Loader.Sizes = sizes
	return nil
}

// rowDims returns, by input, the dimension of the rows that a key of Loader.Sizes specifies. The key is INPUT.DIM, or N
// for dimension 0 of every input of a file without symbols. rowDims returns nil for any other key.
func (f *File) rowDims(key string) map[string]int {
	dims := map[string]int{}
	if key == rowSymbol && len(f.signature.Symbols) == 0 {
		for _, v := range f.signature.Inputs {
			if v.Meta.Rank() > 0 {
				dims[v.Name] = 0
			}
		}
	}
	if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
		dim, err := strconv.Atoi(key[dot+1:])
		v := f.signature.Value(key[:dot])
		if err == nil && slices.Contains(f.signature.Inputs, v) && dim >= 0 && dim < v.Meta.Rank() {
			isNumber := v.Dims == nil || v.Dims[dim].Symbol == "" && v.Dims[dim].Expr == ""
			if isNumber {
				dims[v.Name] = dim
			}
		}
	}
	if len(dims) == 0 {
		return nil
	}
	return dims
}

// withRows returns copies of the inputs with the changed number of rows in their shapes. The order of the dimensions
// determines the strides of a changed shape. The strides of an input that is not dense have no meaning: [rowCount.resize]
// rejects the input, and says why.
func (r *rowCount) withRows(inputs []*graph.Value) []*graph.Value {
	inputs = slices.Clone(inputs)
	for i, v := range inputs {
		dim, ok := r.dims[v.Name]
		if !ok {
			continue
		}
		resized := *v
		shape := slices.Clone(v.Meta.Shape)
		shape[dim] = r.count
		meta := tensor.New(v.Meta.DType, shape...)
		if order, isDense := tensor.OrderOf(v.Meta); isDense {
			meta = meta.WithStrides(order.Strides(shape))
		}
		resized.SetMeta(meta)
		if v.Dims != nil {
			resized.Dims = slices.Clone(v.Dims)
			resized.Dims[dim] = graph.Dim{Size: r.count}
		}
		inputs[i] = &resized
	}
	return inputs
}

// resize returns the graph with the changed number of rows. It fails if the rows of the graph are not proved
// independent.
func (r *rowCount) resize(ctx context.Context, g *graph.Graph) (*graph.Graph, error) {
	if err := program.Infer(ctx, g); err != nil {
		return nil, err
	}
	proof, err := batch.Follow(g, r.dims) // a proof that the rows are independent
	hint := fmt.Sprintf("; give the input and the dimension of the rows, as in x.0=%d", r.count)
	if err == nil {
		hint = "" // the rows are known
		g.SetContext(ctx)
		defer g.SetContext(context.Background())
		var resized *graph.Graph
		if resized, err = proof.Resize(r.count); err == nil {
			resized.SetContext(context.Background())
			return resized, nil
		}
	}
	if ended := interrupt.Err(ctx); ended != nil {
		return nil, ended
	}
	if located := (*graph.Error)(nil); errors.As(err, &located) {
		e := *located
		e.Err = fmt.Errorf("%s=%d: the rows are not independent: %w", r.key, r.count, located.Err)
		return nil, &e
	}
	return nil, fmt.Errorf("%s=%d: %w%s", r.key, r.count, err, hint)
}
