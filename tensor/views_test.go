package tensor_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

type viewRow struct {
	Op, DType      string
	Shape, Strides []int
	Offset         int
	Storage        int
	Args           map[string]number
	Out            [][3]number
	Err            string
}

// number is an integer or a list of them, parsed late: the float64 that encoding/json decodes to cannot hold
// 2^63-1.
type number = json.RawMessage

func parse[T any](v number) (out T) {
	if err := json.Unmarshal(v, &out); err != nil {
		panic(fmt.Sprintf("vector argument %q: %v", v, err))
	}
	return out
}

func ints(v number) []int { return parse[[]int](v) }

func num(v number) int { return parse[int](v) }

// ptr gives nil for null, which stands for Python's None.
func ptr(v number) *int { return parse[*int](v) }

func one(m tensor.Meta, err error) ([]tensor.Meta, error) { return []tensor.Meta{m}, err }

func shapeOnly(shape []int, err error) ([]tensor.Meta, error) {
	return []tensor.Meta{{Shape: shape}}, err
}

// applyView calls the function under test with the vector's arguments.
func applyView(m tensor.Meta, op string, a map[string]number, storage int) ([]tensor.Meta, error) {
	switch op {
	case "permute":
		return one(m.Permute(ints(a["dims"])))
	case "transpose":
		return one(m.Transpose(num(a["dim0"]), num(a["dim1"])))
	case "movedim":
		return one(m.MoveDim(ints(a["source"]), ints(a["destination"])))
	case "expand":
		return one(m.Expand(ints(a["size"])))
	case "view":
		return one(m.View(ints(a["size"])))
	case "slice":
		return one(m.Slice(num(a["dim"]), ptr(a["start"]), ptr(a["end"]), num(a["step"])))
	case "select":
		return one(m.Select(num(a["dim"]), num(a["index"])))
	case "squeeze":
		if d, ok := a["dim"]; ok {
			return one(m.Squeeze(num(d)))
		}
		return one(m.Squeeze())
	case "unsqueeze":
		return one(m.Unsqueeze(num(a["dim"])))
	case "flatten":
		return shapeOnly(m.Flatten(num(a["start_dim"]), num(a["end_dim"])))
	case "unfold":
		return one(m.Unfold(num(a["dimension"]), num(a["size"]), num(a["step"])))
	case "diagonal":
		return one(m.Diagonal(num(a["offset"]), num(a["dim1"]), num(a["dim2"])))
	case "split":
		return m.Split(num(a["split_size"]), num(a["dim"]))
	case "split_sizes":
		return m.SplitSizes(ints(a["sizes"]), num(a["dim"]))
	case "chunk":
		return m.Chunk(num(a["chunks"]), num(a["dim"]))
	case "narrow":
		return one(m.Narrow(num(a["dim"]), num(a["start"]), num(a["length"])))
	case "as_strided":
		return one(m.AsStrided(ints(a["size"]), ints(a["stride"]), num(a["offset"]), storage))
	case "broadcast":
		return shapeOnly(tensor.Broadcast(ints(a["a"]), ints(a["b"])))
	}
	return nil, fmt.Errorf("no such operator in this test: %s", op)
}

func TestViewsAgreeWithPyTorch(t *testing.T) {
	refused := 0
	for _, r := range load[viewRow](t, "views.json") {
		m := tensor.Meta{DType: dtype(t, r.DType), Shape: r.Shape, Strides: r.Strides, Offset: r.Offset}
		before := m.String()
		got, err := applyView(m, r.Op, r.Args, r.Storage)
		where := fmt.Sprintf("%s(%v, %s)", r.Op, m, r.Args)
		if m.String() != before {
			t.Fatalf("%s wrote into its operand: %v", where, m)
		}
		if r.Err != "" {
			refused++
			if err == nil {
				t.Errorf("%s = %v, want error %q", where, got, r.Err)
			} else if err.Error() != r.Err {
				t.Errorf("%s:\n got error %q\nwant error %q", where, err, r.Err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v, want %s", where, err, r.Out)
			continue
		}
		if len(got) != len(r.Out) {
			t.Errorf("%s: %d results, want %d", where, len(got), len(r.Out))
			continue
		}
		layoutMatters := r.Op != "flatten" && r.Op != "broadcast"
		for i, w := range r.Out {
			shape, strides, offset := ints(w[0]), ints(w[1]), num(w[2])
			if !slices.Equal(got[i].Shape, shape) ||
				layoutMatters && (!slices.Equal(got[i].Strides, strides) || got[i].Offset != offset) {
				t.Errorf("%s[%d] = %v, want %v@%v+%d", where, i, got[i], shape, strides, offset)
			}
		}
	}
	if refused < 50 {
		t.Errorf("the vectors hold %d refusals: too few to say anything", refused)
	}
}

func TestViewsRefuseWhatOverflows(t *testing.T) {
	const big = math.MaxInt/2 + 1
	one, huge := tensor.New(tensor.Float32, 1, 3), tensor.New(tensor.Uint8, min(1<<40, math.MaxInt))
	empty := tensor.New(tensor.Float32, 0)
	for name, f := range map[string]func() (tensor.Meta, error){
		"expand": func() (tensor.Meta, error) {
			return one.Expand([]int{min(1<<40, math.MaxInt), min(1<<40, math.MaxInt), 3})
		},
		"expand, one dim":   func() (tensor.Meta, error) { return one.Expand([]int{big, 3}) },
		"expand to nothing": func() (tensor.Meta, error) { return one.Expand([]int{big, 4, 0, 1, 3}) },
		"view":              func() (tensor.Meta, error) { return empty.View([]int{0, big, big}) },
		"view, reversed":    func() (tensor.Meta, error) { return empty.View([]int{big, big, 0}) },
		"as_strided":        func() (tensor.Meta, error) { return one.AsStrided([]int{big, big}, []int{0, 0}, 0, 3) },
		"as_strided stride": func() (tensor.Meta, error) { return one.AsStrided([]int{5}, []int{big}, 0, 3) },
		"as_strided offset": func() (tensor.Meta, error) { return one.AsStrided([]int{1}, []int{1}, 2*big-1, -1) },
		"as_strided size":   func() (tensor.Meta, error) { return one.AsStrided([]int{-2}, []int{1}, 0, 3) },
		"unfold step":       func() (tensor.Meta, error) { return one.Unfold(1, 1, 2*big-1) },
		"unfold size":       func() (tensor.Meta, error) { return one.Unfold(1, -1, 1) },
		"slice step":        func() (tensor.Meta, error) { return one.Slice(0, nil, nil, 2*big-1) },
		"split": func() (tensor.Meta, error) {
			_, err := huge.Split(1, 0)
			return tensor.Meta{}, err
		},
		"chunk": func() (tensor.Meta, error) {
			_, err := empty.Chunk(big, 0)
			return tensor.Meta{}, err
		},
		"split_sizes": func() (tensor.Meta, error) { // the sum wraps around to the size
			_, err := one.SplitSizes([]int{2*big - 1, 2*big - 1, 5}, 1)
			return tensor.Meta{}, err
		},
		"broadcast": func() (tensor.Meta, error) {
			_, err := tensor.Broadcast([]int{big, 1}, []int{1, big})
			return tensor.Meta{}, err
		},
	} {
		if m, err := f(); err == nil {
			t.Errorf("%s gave %v, want an error", name, m)
		}
	}
}

func TestSqueezeTakesSeveralDims(t *testing.T) {
	m := tensor.New(tensor.Float32, 1, 2, 1, 1)
	got, err := m.Squeeze(0, -1, 1)
	if err != nil || !slices.Equal(got.Shape, []int{2, 1}) || !slices.Equal(got.Strides, []int{1, 1}) {
		t.Errorf("squeeze(0, -1, 1) = %v, %v", got, err)
	}
	if _, err := m.Squeeze(0, -4); err == nil || err.Error() != "dim 0 appears multiple times in the list of dims" {
		t.Errorf("squeeze(0, -4): %v", err)
	}
}

func TestWrapDim(t *testing.T) {
	if _, err := tensor.WrapDim(5, 4); err == nil || err.Error() != "Dimension out of range (expected to be in range of "+
		"[-4, 3], but got 5)" {
		t.Error(err)
	}
	for _, c := range [][3]int{{-1, 4, 3}, {3, 4, 3}, {-4, 4, 0}, {0, 0, 0}, {-1, 0, 0}} {
		if d, err := tensor.WrapDim(c[0], c[1]); err != nil || d != c[2] {
			t.Errorf("WrapDim(%d, %d) = %d, %v", c[0], c[1], d, err)
		}
	}
}

func TestAsStridedOverUnknownStorage(t *testing.T) {
	m := tensor.New(tensor.Float32, 2)
	got, err := m.AsStrided([]int{4}, []int{2}, 1, -1)
	want := tensor.Meta{DType: tensor.Float32, Shape: []int{4}, Strides: []int{2}, Offset: 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}
