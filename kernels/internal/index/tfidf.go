package index

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type tfidfAttrs struct {
	MaxGramLength int       `attr:"max_gram_length" doc:"maximum length of n-grams to count"`
	MinGramLength int       `attr:"min_gram_length" doc:"minimum length of n-grams to count"`
	MaxSkipCount  int       `attr:"max_skip_count" doc:"maximum number of elements to skip between neighbours of an n-gram"`
	Mode          string    `attr:"mode" oneof:"TF|IDF|TFIDF" doc:"TF: counts; IDF: the weights of the n-grams that occur; TFIDF: counts times weights"`
	NgramCounts   []int     `attr:"ngram_counts" doc:"element i is where the n-grams of length i+1 begin in the pool"`
	NgramIndexes  []int     `attr:"ngram_indexes" doc:"for each n-gram of the pool, its position in the result"`
	Pool          []int     `attr:"pool_int64s" range:"int64" doc:"all n-grams, concatenated, shorter ones first"`
	Weights       []float64 `attr:"weights" default:"none" doc:"weight of each n-gram of the pool; none: 1"`
}

// TfidfVectorizer is ONNX's operator of this name, for integers only. For example, with ngram_counts [0 2] and
// pool_int64s [7 8 1 2 3 4], the n-grams are (7), (8), (1 2) and (3 4). The row [1 5 2 7] has one occurrence of (7),
// and one of (1 2) at distance 2.
var TfidfVectorizer = kit.Define[*tfidfAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "tfidf_vectorizer",
		Doc: "Counts the occurrences of each n-gram (a short sequence of integers) of a pool in each row of self, which " +
			"has the shape [n] or [rows, n]. The result has one float32 vector per row. Neighbouring elements of an " +
			"occurrence all have the same distance, from 1 to `max_skip_count`+1.",
		Params: []graph.Param{kit.Self},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			self := call.Type(0)
			vectorizer, err := newTfidf(kit.Attrs[*tfidfAttrs](call))
			if err != nil {
				return nil, err
			}
			if self.DType != tensor.Int32 && self.DType != tensor.Int64 || self.Rank() < 1 || self.Rank() > 2 {
				return nil, fmt.Errorf("tfidf_vectorizer: expected int32 or int64 of 1 or 2 dimensions, got %v", self)
			}
			shape := append(slices.Clone(self.Shape[:self.Rank()-1]), sym.Of(vectorizer.size))
			out, err := kit.FreshType(tensor.Float32, shape)
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			vectorizer, err := newTfidf(kit.Attrs[*tfidfAttrs](c))
			if err != nil {
				return nil, err
			}
			return vectorizer.reference(in[0])
		},
		Examples: kit.OneExample(kit.I64(2, 6), graph.Attrs{"max_gram_length": 2, "min_gram_length": 1, "max_skip_count": 1,
			"mode": "TFIDF", "ngram_counts": []int{0, 2}, "ngram_indexes": []int{0, 1, 2, 3},
			"pool_int64s": []int{0, 1, 1, 0, 1, 1}, "weights": []float64{1, 2, 3, 4}}),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			vectorizer, err := newTfidf(kit.Attrs[*tfidfAttrs](c))
			if err != nil || c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, err
			}
			return vectorizer.kernel(c)
		},
	},
})

// tfidf is a call of tfidf_vectorizer, with its pool divided into n-grams.
type tfidf struct {
	attrs *tfidfAttrs
	size  int // number of elements per row of the result
	grams []tfidfGram
}

// tfidfGram is an n-gram of the pool.
type tfidfGram struct {
	ids      []int64 // the elements of the n-gram
	position int     // position in a row of the result
	weight   float32
}

// newTfidf checks the attributes and divides the pool into n-grams.
func newTfidf(attrs *tfidfAttrs) (*tfidf, error) {
	vectorizer := &tfidf{attrs: attrs}
	for i, begin := range attrs.NgramCounts {
		gramLength, end := i+1, len(attrs.Pool) // the n-grams of this length are in Pool[begin:end]
		if i+1 < len(attrs.NgramCounts) {
			end = attrs.NgramCounts[i+1]
		}
		if begin < 0 || end < begin || end > len(attrs.Pool) || (end-begin)%gramLength != 0 {
			return nil, errors.New("tfidf_vectorizer: ngram_counts do not divide the pool into n-grams")
		}
		for ; begin < end; begin += gramLength {
			gram, err := attrs.gram(len(vectorizer.grams), attrs.Pool[begin:begin+gramLength])
			if err != nil {
				return nil, err
			}
			vectorizer.size = max(vectorizer.size, gram.position+1)
			vectorizer.grams = append(vectorizer.grams, gram)
		}
	}
	return vectorizer, nil
}

// gram returns n-gram i of the pool, which consists of the given ids.
func (a *tfidfAttrs) gram(i int, ids []int) (tfidfGram, error) {
	hasPosition := i < len(a.NgramIndexes) && a.NgramIndexes[i] >= 0 && a.NgramIndexes[i] <= maxTfidfPosition
	hasWeight := a.Weights == nil || i < len(a.Weights)
	if !hasPosition || !hasWeight {
		return tfidfGram{}, errors.New("tfidf_vectorizer: ngram_indexes or weights do not fit the pool")
	}
	gram := tfidfGram{position: a.NgramIndexes[i], weight: 1}
	if a.Weights != nil {
		gram.weight = float32(a.Weights[i])
	}
	for _, id := range ids {
		gram.ids = append(gram.ids, int64(id))
	}
	return gram, nil
}

// maxTfidfPosition bounds the positions of n-grams, and with them the length of a row of the result.
const maxTfidfPosition = 1 << 24

// tfidfGrain is the maximum number of elements that a unit of work reads, unless one row is longer.
const tfidfGrain = 1 << 20

// kernel returns the kernel of the call. It first counts the occurrences of each n-gram in each row; the counts
// [rows, gramCount] are in scratch memory. Then it writes the results.
func (t *tfidf) kernel(c *graph.Call) (*graph.Kernel, error) {
	builder := copies.NewKernelBuilder(c)
	buffers := []kit.Buffer{builder.Result(0, tensor.Float32), builder.ToRowMajor(builder.Operand(0), tensor.Int64)}
	selfMeta := c.Meta(0)
	k := newTfidfKernel(t, selfMeta.Shape[selfMeta.Rank()-1], c.Out[0].Numel()/t.size)
	const clearCost = 1 // of a count, in copied elements
	clearCounts := copies.ChunkedPhase(k.rows*k.gramCount, clearCost, func(mem *graph.Mem, begin, end int) error {
		clear(k.counts(mem)[begin:end])
		return nil
	})
	unitCost := min(k.length, math.MaxInt32) * k.distancesPerUnit // bounded, so that the product does not overflow
	countGrams := copies.ChunkedPhase(k.rows*k.unitsPerRow(), unitCost,
		func(mem *graph.Mem, begin, end int) error {
			for unit := begin; unit < end; unit++ {
				k.countUnit(mem, unit/k.unitsPerRow(), unit%k.unitsPerRow())
			}
			return nil
		})
	writeResults := copies.ChunkedPhase(k.rows, t.size+k.gramCount, func(mem *graph.Mem, begin, end int) error {
		for row := begin; row < end; row++ {
			k.writeRow(mem, row)
		}
		return nil
	})
	countBytes := k.rows * k.gramCount * 8 // the counts are int64
	builder.AddPhases(countBytes, copies.NoScratch, buffers, clearCounts, countGrams, writeResults)
	return builder.Kernel()
}

// tfidfKernel is a tfidf for rows of known length. A unit of work counts one n-gram in one row, for a range of at most
// distancesPerUnit distances.
type tfidfKernel struct {
	*tfidf
	length, rows     int // number of elements of a row; number of rows
	gramCount        int // number of n-grams
	distancesPerUnit int
	firstUnits       []int // firstUnits[i] is the first unit, in its row, of n-gram i; the last element is their number
}

// newTfidfKernel divides the work on rows of the given length into units.
func newTfidfKernel(t *tfidf, length, rows int) *tfidfKernel {
	k := &tfidfKernel{tfidf: t, length: length, rows: rows, gramCount: len(t.grams),
		distancesPerUnit: max(1, tfidfGrain/max(1, length)), firstUnits: []int{0}}
	for i := range t.grams {
		units := kit.DivUp(t.maxDistance(&t.grams[i], length), k.distancesPerUnit)
		k.firstUnits = append(k.firstUnits, k.firstUnits[i]+units)
	}
	return k
}

// unitsPerRow returns the number of units of a row.
func (k *tfidfKernel) unitsPerRow() int { return k.firstUnits[k.gramCount] }

// counts returns the number of occurrences of each n-gram in each row.
func (k *tfidfKernel) counts(mem *graph.Mem) []int64 {
	return kit.SliceOf[int64](mem.Scratch, 0, k.rows*k.gramCount)
}

// countUnit adds the occurrences of a unit of a row to the counts.
func (k *tfidfKernel) countUnit(mem *graph.Mem, row, unit int) {
	// The unit belongs to the n-gram i with firstUnits[i] <= unit < firstUnits[i+1].
	next, _ := slices.BinarySearch(k.firstUnits, unit+1)
	i := next - 1
	gram := &k.grams[i]
	elements := unsafe.Slice((*int64)(kit.AddressOf[int64](mem.Ptrs[1], row*k.length)), k.length)
	firstDistance := (unit-k.firstUnits[i])*k.distancesPerUnit + 1
	lastDistance := min(firstDistance+k.distancesPerUnit-1, k.maxDistance(gram, k.length))
	occurrences := 0
	for distance := firstDistance; distance <= lastDistance; distance++ {
		occurrences += gram.count(mem, elements, distance)
	}
	// Other workers may count other distances of the same n-gram.
	atomic.AddInt64(&k.counts(mem)[row*k.gramCount+i], int64(occurrences))
}

// writeRow writes a row of the result.
func (k *tfidfKernel) writeRow(mem *graph.Mem, row int) {
	resultRow := unsafe.Slice((*float32)(kit.AddressOf[float32](mem.Ptrs[0], row*k.size)), k.size)
	kit.ForEachBlock(mem.Context, len(resultRow), func(begin, end int) { clear(resultRow[begin:end]) })
	counts := k.counts(mem)[row*k.gramCount:]
	for i := range k.grams {
		mem.CheckContextAfter(1)
		if gram := &k.grams[i]; k.includes(gram) {
			k.writeCount(gram, int(counts[i]), &resultRow[gram.position])
		}
	}
}

// includes reports whether the attributes request n-grams of the length of gram.
func (t *tfidf) includes(gram *tfidfGram) bool {
	return len(gram.ids) >= t.attrs.MinGramLength && len(gram.ids) <= t.attrs.MaxGramLength
}

// maxDistance returns the greatest distance between neighbouring elements of an occurrence, in rows of the given
// length. Distances start at 1. The result is 0 if the n-gram is not counted, and 1 for n-grams of one element.
func (t *tfidf) maxDistance(gram *tfidfGram, length int) int {
	maxSkip := t.attrs.MaxSkipCount
	switch {
	case !t.includes(gram) || maxSkip < 0:
		return 0
	case len(gram.ids) == 1:
		return 1
	}
	// An occurrence of k elements spans (k-1)*distance+1 elements of the row.
	greatest := max(0, length-1) / (len(gram.ids) - 1)
	return min(greatest-1, maxSkip) + 1 // maxSkip+1 could overflow
}

// count returns the number of occurrences of the n-gram in a row. `distance` is the distance between neighbouring
// elements of an occurrence. It reports its comparisons to mem, so that a canceled run ends soon. mem may be nil.
func (g *tfidfGram) count(mem *graph.Mem, row []int64, distance int) int {
	count := 0
	for first := 0; first+(len(g.ids)-1)*distance < len(row); first++ {
		isOccurrence := true
		for k, id := range g.ids {
			isOccurrence = isOccurrence && row[first+k*distance] == id
		}
		if isOccurrence {
			count++
		}
		mem.CheckContextAfter(len(g.ids))
	}
	return count
}

// writeCount writes the result for an n-gram that occurs count times. If count is 0, it writes only in mode TF.
func (t *tfidf) writeCount(gram *tfidfGram, count int, result *float32) {
	switch {
	case t.attrs.Mode == "TF":
		*result = float32(count)
	case count == 0:
	case t.attrs.Mode == "IDF":
		*result = gram.weight
	default:
		*result = float32(count) * gram.weight
	}
}

// reference is the Ref of the op. It counts one n-gram after another.
func (t *tfidf) reference(self *tensor.Tensor) ([]*tensor.Tensor, error) {
	lastDim := self.Rank() - 1
	length, rows := self.Shape[lastDim], tensor.Numel(self.Shape[:lastDim])
	out := tensor.Zeros(tensor.Float32, append(slices.Clone(self.Shape[:lastDim]), t.size)...)
	elements, err := tensor.ToSlice[int64](self.CopyTo(tensor.New(tensor.Int64, self.Shape...)))
	if err != nil {
		return nil, err
	}
	for row := range rows {
		resultRow := make([]float32, t.size)
		for i := range t.grams {
			gram, count := &t.grams[i], 0
			for distance := 1; distance <= t.maxDistance(gram, length); distance++ {
				count += gram.count(nil, elements[row*length:(row+1)*length], distance)
			}
			if t.includes(gram) {
				t.writeCount(gram, count, &resultRow[gram.position])
			}
		}
		for i, value := range resultRow {
			out.SetFlat(row*t.size+i, tensor.FloatScalar(float64(value)))
		}
	}
	return []*tensor.Tensor{out}, nil
}
