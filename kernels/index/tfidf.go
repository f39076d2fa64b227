package index

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type tfidfAttrs struct {
	MaxGramLength int       `attr:"max_gram_length" doc:"greatest length of n-grams to count"`
	MinGramLength int       `attr:"min_gram_length" doc:"least length of n-grams to count"`
	MaxSkipCount  int       `attr:"max_skip_count" doc:"most elements to skip between two of an n-gram"`
	Mode          string    `attr:"mode" oneof:"TF|IDF|TFIDF" doc:"give counts; weights of what occurs; or their product"`
	NgramCounts   []int     `attr:"ngram_counts" doc:"where the n-grams of each length begin in the pool"`
	NgramIndexes  []int     `attr:"ngram_indexes" doc:"place in the result of each n-gram of the pool"`
	Pool          []int     `attr:"pool_int64s" doc:"the n-grams, one after another, by length"`
	Weights       []float64 `attr:"weights" default:"none" doc:"weight of each n-gram of the pool; none: 1"`
}

// TfidfVectorizer is ONNX's, for integers.
var TfidfVectorizer = kit.Define[tfidfAttrs](graph.Op{
	AnyOrder: true,
	Name:     "tfidf_vectorizer", Doc: "Counts the n-grams of a pool in rows of integers: [n] or [rows, n] gives one " +
		"float32 vector a row.",
	Params: []graph.Param{kit.Self},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m := c.Type(0)
		t, err := newTfidf(kit.Attrs[tfidfAttrs](c))
		if err != nil {
			return nil, err
		}
		if m.DType != tensor.Int32 && m.DType != tensor.Int64 || m.Rank() < 1 || m.Rank() > 2 {
			return nil, fmt.Errorf("tfidf_vectorizer: expected int32 or int64 of 1 or 2 dimensions, got %v", m)
		}
		out, err := kit.FreshType(tensor.Float32, append(slices.Clone(m.Shape[:m.Rank()-1]), sym.Of(t.size)))
		return c.One(out), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		m, out := c.Meta(0), c.Out[0]
		t, err := newTfidf(kit.Attrs[tfidfAttrs](c))
		if err != nil || out.Numel() == 0 {
			return &graph.Kernel{}, err
		}
		last := m.Rank() - 1
		n, step, to := m.Shape[last], kit.StepAt(m, last), kit.StepAt(out, last)
		l := kit.NewLineSet(m.Shape, last, m, out)
		load := tensor.Converter(tensor.Int64, m.DType)
		return &graph.Kernel{Worker: 8 * n, Phases: []graph.Phase{{Chunks: l.Count, Run: func(mem *graph.Mem, row int) error {
			off := l.At(row)
			x := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(mem.Worker))), n)
			if n > 0 {
				load(unsafe.Pointer(unsafe.SliceData(x)), unsafe.Add(mem.Ptrs[1], off[0]), 8, step, n)
			}
			t.row(func(i int) *float32 { return (*float32)(unsafe.Add(mem.Ptrs[0], off[1]+i*to)) }, x)
			return nil
		}}}}, nil
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		t, err := newTfidf(kit.Attrs[tfidfAttrs](c))
		if err != nil {
			return nil, err
		}
		m := in[0].CopyTo(tensor.New(tensor.Int64, in[0].Shape...))
		last := m.Rank() - 1
		out := tensor.Zeros(tensor.Float32, append(slices.Clone(m.Shape[:last]), t.size)...)
		all, err := tensor.ToSlice[int64](m)
		if err != nil {
			return nil, err
		}
		n := m.Shape[last]
		for r := range tensor.Numel(m.Shape[:last]) {
			y := make([]float32, t.size)
			t.row(func(i int) *float32 { return &y[i] }, all[r*n:(r+1)*n])
			for i, v := range y {
				out.SetFlat(r*t.size+i, tensor.FloatScalar(float64(v)))
			}
		}
		return []*tensor.Tensor{out}, nil
	},
	Examples: kit.OneExample(kit.I64(2, 6), graph.Attrs{"max_gram_length": 2, "min_gram_length": 1, "max_skip_count": 1,
		"mode":         "TFIDF",
		"ngram_counts": []int{0, 2}, "ngram_indexes": []int{0, 1, 2, 3}, "pool_int64s": []int{0, 1, 1, 0, 1, 1},
		"weights": []float64{1, 2, 3, 4}}),
})

// tfidf is a pool of n-grams made ready.
type tfidf struct {
	a     *tfidfAttrs
	size  int
	grams []tfidfGram
}

type tfidfGram struct {
	ids    []int64
	at     int
	weight float32
}

func newTfidf(a *tfidfAttrs) (*tfidf, error) {
	t := &tfidf{a: a}
	for n, from := range a.NgramCounts {
		to := len(a.Pool)
		if n+1 < len(a.NgramCounts) {
			to = a.NgramCounts[n+1]
		}
		if from < 0 || to < from || to > len(a.Pool) || (to-from)%(n+1) != 0 {
			return nil, errors.New("tfidf_vectorizer: ngram_counts do not cut the pool into n-grams")
		}
		for ; from < to; from += n + 1 {
			g := tfidfGram{weight: 1}
			for _, v := range a.Pool[from : from+n+1] {
				g.ids = append(g.ids, int64(v))
			}
			k := len(t.grams)
			if k >= len(a.NgramIndexes) || a.NgramIndexes[k] < 0 || a.NgramIndexes[k] > 1<<24 || a.Weights != nil &&
				k >= len(a.Weights) {
				return nil, errors.New("tfidf_vectorizer: ngram_indexes or weights do not fit the pool")
			}
			g.at = a.NgramIndexes[k]
			if a.Weights != nil {
				g.weight = float32(a.Weights[k])
			}
			t.size = max(t.size, g.at+1)
			t.grams = append(t.grams, g)
		}
	}
	return t, nil
}

// row counts the n-grams of one row; y gives the places of the counts. Those of one element have nothing to skip.
func (t *tfidf) row(y func(i int) *float32, x []int64) {
	for i := range t.size {
		*y(i) = 0
	}
	for i := range t.grams {
		g := &t.grams[i]
		n := len(g.ids)
		if n < t.a.MinGramLength || n > t.a.MaxGramLength {
			continue
		}
		count := 0
		for skip := 1; skip <= t.a.MaxSkipCount+1; skip++ {
			for from := 0; from+(n-1)*skip < len(x); from++ {
				same := true
				for k, id := range g.ids {
					same = same && x[from+k*skip] == id
				}
				if same {
					count++
				}
			}
			if n == 1 {
				break
			}
		}
		switch {
		case t.a.Mode == "TF":
			*y(g.at) = float32(count)
		case count == 0:
		case t.a.Mode == "IDF":
			*y(g.at) = g.weight
		default:
			*y(g.at) = float32(count) * g.weight
		}
	}
}
