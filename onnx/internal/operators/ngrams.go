package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// tfIdf converts TfIdfVectorizer, which counts the n-grams of a pool in each row.
func tfIdf(n *node) []*value {
	x := n.Operand(0)
	grams := readGramTable(n)
	shape := n.SymShape(x)
	if len(shape) != 1 && len(shape) != 2 {
		n.Failf("the operand has %d dimensions, want 1 or 2", len(shape))
	}
	rows := x
	if len(shape) == 1 {
		rows = n.Reshape(x, 1, -1)
	}
	var counts *value // [rows, n-grams of the pool]
	for _, g := range grams.groups {
		c := countGrams(n, rows, g.length, g.words, grams.skips)
		if counts == nil {
			counts = c
		} else {
			counts = n.Op("cat", graph.Attrs{"dim": 1}, counts, c)
		}
	}
	if counts == nil {
		n.Failf("the pool is empty")
	}
	weights := convert.FloatVector(grams.weights...)
	switch mode := n.Text("mode", "TF"); mode {
	case "IDF":
		counts = n.Op("mul", nil, n.Cast(n.Op("gt", nil, counts, 0), tensor.Float32), weights)
	case "TFIDF":
		counts = n.Op("mul", nil, counts, weights)
	case "TF":
	default:
		n.Failf("mode %q is not supported", mode)
	}
	total := slices.Max(grams.positions) + 1
	sizes := n.SymShape(counts)
	zeros := n.Op("full", graph.Attrs{"size": n.SizesAttr(sizes[0], sym.Of(total)), "fill_value": 0,
		"dtype": tensor.Float32})
	positions := n.Op("expand", graph.Attrs{"size": n.SizesAttr(sizes...)}, convert.IntVector(grams.positions...))
	y := n.Op("scatter_reduce", graph.Attrs{"dim": 1, "reduce": "sum"}, zeros, positions, counts)
	if len(shape) == 1 {
		y = n.Reshape(y, total)
	}
	return one(y)
}

// gramGroup has the n-grams of one length in a pool.
type gramGroup struct {
	length int
	words  []int // the words of all n-grams, length words for each
}

// gramTable has the n-grams that TfIdfVectorizer counts.
type gramTable struct {
	groups    []gramGroup
	positions []int     // for each n-gram, the position of its count in a row of the result
	weights   []float64 // for each n-gram
	skips     int       // the maximum number of skipped words between two words of an n-gram
}

// readGramTable reads the attributes of TfIdfVectorizer.
func readGramTable(n *node) gramTable {
	pool, ok := n.Ints("pool_int64s")
	if !ok {
		n.Failf("strings are not supported")
	}
	starts, _ := n.Ints("ngram_counts")
	positions, _ := n.Ints("ngram_indexes")
	weights, hasWeights := n.Floats("weights")
	table := gramTable{skips: n.Int("max_skip_count", 0)}
	minLength, maxLength := n.Int("min_gram_length", 1), n.Int("max_gram_length", 1)
	if table.skips < 0 || table.skips > 1<<16 || minLength < 1 || maxLength > len(starts) ||
		len(pool) > convert.FoldLimit {
		n.Failf("the pool does not consist of n-grams of the given lengths")
	}
	gram := 0
	for i, start := range starts {
		end := len(pool)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		length := i + 1
		if start < 0 || end < start || end > len(pool) || (end-start)%length != 0 {
			n.Failf("ngram_counts %s do not suit a pool of %d", tensor.ListString(starts), len(pool))
		}
		count := (end - start) / length
		if length >= minLength && length <= maxLength && count > 0 {
			table.groups = append(table.groups, gramGroup{length, pool[start:end]})
			for k := gram; k < gram+count; k++ {
				if k >= len(positions) || positions[k] < 0 || positions[k] > 1<<24 || hasWeights && k >= len(weights) {
					n.Failf("ngram_indexes or weights do not suit the pool")
				}
				table.positions = append(table.positions, positions[k])
				w := 1.0
				if hasWeights {
					w = weights[k]
				}
				table.weights = append(table.weights, w)
			}
		}
		gram += count
	}
	return table
}

// countGrams counts n-grams of one length in each row. words is gramGroup.words. Between two adjacent words of an
// n-gram, a row may have `skip` other words. countGrams adds the counts for each skip from 0 to skips.
func countGrams(n *node, rows *value, length int, words []int, skips int) *value {
	sizes := n.SymShape(rows)
	grams := len(words) / length
	meta := tensor.New(tensor.Int64, 1, 1, grams, length)
	pool := convert.Constant(tensor.Must(convert.IntVector(words...).Data().View(meta)))
	sum := n.Op("full", graph.Attrs{"size": n.SizesAttr(sizes[0], sym.Of(grams)), "fill_value": 0,
		"dtype": tensor.Float32})
	for skip := range skips + 1 {
		step := skip + 1
		count := sizes[1].Sub(sym.Of((length - 1) * step)).Max(sym.Int{})
		if length == 1 && skip > 0 || count.Same(sym.Int{}) {
			break
		}
		var cols []any
		for k := range length {
			end := n.SizeAttr(count.Add(sym.Of(k * step)))
			cols = append(cols, n.Op("slice", graph.Attrs{"dim": 1, "start": k * step, "end": end}, rows))
		}
		found := n.Op("unsqueeze", graph.Attrs{"dim": 2}, n.Op("stack", graph.Attrs{"dim": 2}, cols...))
		matches := n.Op("all", graph.Attrs{"dim": []int{3}}, n.Op("eq", nil, found, pool))
		sum = n.Op("add", nil, sum, n.Op("sum", graph.Attrs{"dim": []int{1}, "dtype": tensor.Float32}, matches))
	}
	return sum
}
