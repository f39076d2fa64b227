package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// tfIdf converts TfIdfVectorizer, which counts n-grams in each row of the operand. It counts the n-grams of a pool, a
// list in the attributes. An n-gram is a sequence of n words, and a word is an integer or a string, represented by a
// code. In mode TF the result is the
// counts, in mode TFIDF counts*weights, and in mode IDF the weights of the n-grams that occur. For example, a pool of
// the 1-gram 7 and the 2-gram 7 8 has the counts [2, 1] in the row [7, 8, 7].
func tfIdf(n *node) []*value {
	x, table := n.Operand(0), readGramTable(n)
	shape := n.SymShape(x)
	if len(shape) != 1 && len(shape) != 2 {
		n.Failf("the operand has %d dimensions, want 1 or 2", len(shape))
	}
	rows := x
	if len(shape) == 1 {
		rows = n.Reshape(x, 1, -1)
	}
	var counts *value // [rows, n-grams of the pool]
	for _, group := range table.groups {
		groupCounts := countGrams(n, rows, group.length, group.words, table.skips)
		if counts == nil {
			counts = groupCounts
		} else {
			counts = n.Op("cat", graph.Attrs{"dim": 1}, counts, groupCounts)
		}
	}
	if counts == nil {
		n.Failf("the pool is empty")
	}
	resultSize := slices.Max(table.positions) + 1
	y := sumByPosition(n, weightedCounts(n, counts, table.weights), table.positions, resultSize)
	if len(shape) == 1 {
		y = n.Reshape(y, resultSize)
	}
	return single(y)
}

// gramGroup has the n-grams of one length in a pool.
type gramGroup struct {
	length int   // words of an n-gram
	words  []int // the words of all n-grams of the group, one n-gram after another
}

// gramTable has the n-grams that TfIdfVectorizer counts.
type gramTable struct {
	groups    []gramGroup
	positions []int     // for each n-gram, the position of its count in a row of the result
	weights   []float64 // for each n-gram
	skips     int       // the maximum number of skipped words between two words of an n-gram
}

// readGramTable reads the attributes of TfIdfVectorizer. The pool has all words of the n-grams of length 1, then of
// length 2, and so on; ngram_counts[i] is the position in the pool of the first n-gram of length i+1. The table has
// only the n-grams of min_gram_length to max_gram_length words.
func readGramTable(n *node) gramTable {
	pool, _ := n.Ints("pool_int64s")
	texts, hasTexts := n.Strings("pool_strings")
	if hasTexts {
		pool = convert.IntsOf(n.StringCodes(texts...).Data())
	}
	if hasTexts != n.Operand(0).HasStrings() {
		n.Failf("the operand must have strings if and only if the pool has (pool_strings)")
	}
	starts, _ := n.Ints("ngram_counts")
	positions, _ := n.Ints("ngram_indexes")
	weights, hasWeights := n.Floats("weights")
	table := gramTable{skips: n.Int("max_skip_count", 0)}
	minLength, maxLength := n.Int("min_gram_length", 1), n.Int("max_gram_length", 1)
	if table.skips < 0 || table.skips > 1<<16 || minLength < 1 || maxLength > len(starts) ||
		len(pool) > convert.FoldLimit {
		n.Failf("want max_skip_count from 0 to 2^16, min_gram_length from 1, max_gram_length to %d (the number of "+
			"ngram_counts), and a pool of at most %d words: got %d, %d, %d and %d", len(starts), convert.FoldLimit,
			table.skips, minLength, maxLength, len(pool))
	}
	if !hasWeights {
		weights = slices.Repeat([]float64{1}, len(positions))
	}
	first := 0 // index, among all n-grams of the pool, of the first one of this length
	for i, start := range starts {
		end := len(pool)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		length := i + 1
		if start < 0 || end < start || end > len(pool) || (end-start)%length != 0 {
			n.Failf("ngram_counts %s do not suit a pool of %d", tensor.ListString(starts), len(pool))
		}
		count := (end - start) / length // n-grams of this length
		if length >= minLength && length <= maxLength && count > 0 {
			table.groups = append(table.groups, gramGroup{length, pool[start:end]})
			for k := first; k < first+count; k++ {
				hasNumbers := k < len(positions) && k < len(weights)
				if !hasNumbers || positions[k] < 0 || positions[k] > 1<<24 {
					n.Failf("want a number from 0 to 2^24 in ngram_indexes, and in weights if given, for each n-gram")
				}
				table.positions = append(table.positions, positions[k])
				table.weights = append(table.weights, weights[k])
			}
		}
		first += count
	}
	return table
}

// countGrams counts n-grams of one length in each row, and returns [rows, n-grams]. words is [gramGroup.words]. For
// each skip from 0 to skips, it counts the n-grams whose adjacent words are separated by exactly `skip` other words of
// the row. The result is the sum of these counts.
func countGrams(n *node, rows *value, length int, words []int, skips int) *value {
	sizes := n.SymShape(rows)
	gramCount := len(words) / length
	meta := tensor.New(tensor.Int64, 1, 1, gramCount, length)
	pool := convert.Constant(tensor.Must(convert.IntVector(words...).Data().View(meta)))
	sum := n.Op("full", graph.Attrs{"size": n.SizesAttr(sizes[0], sym.Of(gramCount)), "fill_value": 0,
		"dtype": tensor.Float32})
	for skip := range skips + 1 {
		step := skip + 1
		// the number of positions of a row at which an n-gram may start
		startCount := sizes[1].Sub(sym.Of((length - 1) * step)).Max(sym.Int{})
		if length == 1 && skip > 0 || startCount.Same(sym.Int{}) {
			break // a single word has no gaps, and an n-gram longer than the row does not occur
		}
		// columns[k], [rows, starts], is word k of the sequence at each start. found is [rows, starts, 1, length], the pool
		// [1, 1, n-grams, length].
		var columns []any
		for k := range length {
			end := n.SizeAttr(startCount.Add(sym.Of(k * step)))
			columns = append(columns, n.Op("slice", graph.Attrs{"dim": 1, "start": k * step, "end": end}, rows))
		}
		found := n.Op("unsqueeze", graph.Attrs{"dim": 2}, n.Op("stack", graph.Attrs{"dim": 2}, columns...))
		matches := n.Op("all", graph.Attrs{"dim": []int{3}}, n.Op("eq", nil, found, pool))
		sum = n.Op("add", nil, sum, n.Op("sum", graph.Attrs{"dim": []int{1}, "dtype": tensor.Float32}, matches))
	}
	return sum
}

// weightedCounts returns the counts, the weighted counts, or the weights of the n-grams that occur, as the attribute
// mode says.
func weightedCounts(n *node, counts *value, weights []float64) *value {
	weight := convert.FloatVector(weights...)
	switch mode := n.Text("mode", "TF"); mode {
	case "IDF":
		return n.Op("mul", nil, n.Cast(n.Op("gt", nil, counts, 0), tensor.Float32), weight)
	case "TFIDF":
		return n.Op("mul", nil, counts, weight)
	case "TF":
	default:
		n.Failf("mode %q is not supported", mode)
	}
	return counts
}

// sumByPosition writes the count of each n-gram to its position in a row of the result, and adds counts with the same
// position.
func sumByPosition(n *node, counts *value, positions []int, resultSize int) *value {
	sizes := n.SymShape(counts)
	zeros := n.Op("full", graph.Attrs{"size": n.SizesAttr(sizes[0], sym.Of(resultSize)), "fill_value": 0,
		"dtype": tensor.Float32})
	index := n.Op("expand", graph.Attrs{"size": n.SizesAttr(sizes...)}, convert.IntVector(positions...))
	return n.Op("scatter_reduce", graph.Attrs{"dim": 1, "reduce": "sum"}, zeros, index, counts)
}
