package product

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file parses the equation of an einsum. For example, let the equation "b...j,jk->b...k" have operands with the
// shapes [2, 3, 4, 5] and [5, 6]. The labels are [b, -2, -1, j] for the first operand, [j, k] for the second, and [b,
// -2, -1, k] for the result. The sizes of b, -2, -1, j and k are 2, 3, 4, 5 and 6.

type einsumAttrs struct {
	Equation string `attr:"equation" doc:"labels of the dimensions of the operands, then -> and labels of the result: \"bij,bjk->bik\""`
}

// equation is a parsed equation with the sizes of its labels. A label identifies a dimension: it is a letter, or a
// negative number for a dimension of an ellipsis. The last dimension of an ellipsis is ellipsisLabel, the dimension
// before it is ellipsisLabel-1, and so on.
type equation struct {
	operandLabels [][]int   // labels of each operand, as written in the equation
	resultLabels  []int     // labels of the result
	labels        []int     // distinct labels of the operands
	sizes         []sym.Int // by index in labels
}

// ellipsisLabel is the label of the last dimension of an ellipsis.
const ellipsisLabel = -1

// size returns the size of a label. The label must occur in an operand.
func (e *equation) size(label int) sym.Int { return e.sizes[slices.Index(e.labels, label)] }

// parseEquation parses an equation for operands of the given types.
func parseEquation(text string, types []tensor.Type) (*equation, error) {
	operandsText, resultText, isExplicit := strings.Cut(strings.ReplaceAll(text, " ", ""), "->")
	operandTexts := strings.Split(operandsText, ",")
	if len(operandTexts) != len(types) {
		return nil, fmt.Errorf("einsum(): the equation has %d operands, but %d were given", len(operandTexts), len(types))
	}
	parsed := &equation{operandLabels: make([][]int, 0, len(operandTexts)), labels: make([]int, 0, len(operandsText)),
		sizes: make([]sym.Int, 0, len(operandsText))}
	maxEllipsisRank := 0
	for i, operandText := range operandTexts {
		ellipsisRank := types[i].Rank() - len(strings.ReplaceAll(operandText, "...", ""))
		if !strings.Contains(operandText, "...") && ellipsisRank != 0 || ellipsisRank < 0 {
			return nil, fmt.Errorf("einsum(): the number of subscripts in the equation (%d) does not match the number of "+
				"dimensions (%d) for operand %d", types[i].Rank()-ellipsisRank, types[i].Rank(), i)
		}
		maxEllipsisRank = max(maxEllipsisRank, ellipsisRank)
		labels, err := parseLabels(operandText, ellipsisRank)
		if err != nil {
			return nil, err
		}
		parsed.operandLabels = append(parsed.operandLabels, labels)
		if err := parsed.recordSizes(labels, types[i].Shape, i); err != nil {
			return nil, err
		}
	}
	if !isExplicit {
		parsed.setImplicitResult(operandsText, maxEllipsisRank)
		return parsed, nil
	}
	return parsed, parsed.setResult(resultText, maxEllipsisRank)
}

// recordSizes records the sizes of the labels of an operand. It fails if the sizes do not broadcast.
func (e *equation) recordSizes(labels []int, shape []sym.Int, operand int) error {
	for d, label := range labels {
		size := shape[d]
		if first := slices.Index(labels, label); first < d {
			if firstSize := shape[first]; firstSize.Ne(size).Holds() {
				return fmt.Errorf("einsum(): subscript %c is repeated for operand %d but the sizes don't match, %v != %v",
					rune(label), operand, size, firstSize)
			}
			continue
		}
		axis := slices.Index(e.labels, label)
		if axis < 0 {
			e.labels, e.sizes = append(e.labels, label), append(e.sizes, size)
			continue
		}
		switch recordedSize := e.sizes[axis]; {
		case size.Eq(recordedSize).Holds(): // nothing to record
		case recordedSize.Eq(sym.Of(1)).Holds():
			e.sizes[axis] = size
		case !size.Ne(sym.Of(1)).Holds(): // size 1 is broadcast
		case label < 0:
			return fmt.Errorf("einsum(): dimension %d covered by ellipsis in operand %d has size %v which does not broadcast "+
				"with previously seen ellipsis with size %v for the respective dimension", d, operand, size, recordedSize)
		default:
			return fmt.Errorf("einsum(): operands do not broadcast with remapped shapes [original->remapped]: subscript %c "+
				"has size %v for operand %d which does not broadcast with previously seen size %v", rune(label), size, operand,
				recordedSize)
		}
	}
	return nil
}

// setResult parses the labels of the result, the text after "->".
func (e *equation) setResult(text string, ellipsisRank int) (err error) {
	if strings.Contains(text, ">") || strings.Contains(text, "-") {
		return errors.New("einsum(): invalid subscript in the output")
	}
	if e.resultLabels, err = parseLabels(text, ellipsisRank); err != nil {
		return err
	}
	for i, label := range e.resultLabels {
		if slices.Contains(e.resultLabels[:i], label) {
			return fmt.Errorf("einsum(): output subscript %c appears more than once in the output", rune(label))
		}
		if !slices.Contains(e.labels, label) {
			return fmt.Errorf("einsum(): output subscript %c does not appear in the equation for any input operand",
				rune(label))
		}
	}
	return nil
}

// setImplicitResult sets the labels of the result of an equation without "->": the labels of the ellipsis, and the
// letters that occur exactly once in the text of the operands.
func (e *equation) setImplicitResult(operandsText string, ellipsisRank int) {
	for k := ellipsisRank - 1; k >= 0; k-- {
		e.resultLabels = append(e.resultLabels, ellipsisLabel-k)
	}
	// PyTorch's order of labels: capitals first, as in ASCII.
	for letter := int('A'); letter <= 'z'; letter++ {
		if isLetter := letter <= 'Z' || letter >= 'a'; isLetter && strings.Count(operandsText, string(rune(letter))) == 1 {
			e.resultLabels = append(e.resultLabels, letter)
		}
	}
}

// parseLabels parses text, the labels of one operand or of the result. ellipsisRank is the number of dimensions that
// an ellipsis in the text stands for.
func parseLabels(text string, ellipsisRank int) ([]int, error) {
	labels := make([]int, 0, len(text)+ellipsisRank)
	hasEllipsis := false
	for i := 0; i < len(text); i++ {
		switch letter := text[i]; {
		case letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z':
			labels = append(labels, int(letter))
		case letter == '.':
			if hasEllipsis || !strings.HasPrefix(text[i:], "...") {
				return nil, errors.New("einsum(): found '.' that is not part of an ellipsis, or a second ellipsis")
			}
			hasEllipsis = true
			i += len("...") - 1 // the loop adds 1
			for k := ellipsisRank - 1; k >= 0; k-- {
				labels = append(labels, ellipsisLabel-k)
			}
		default:
			return nil, fmt.Errorf("einsum(): invalid subscript given at index %d in the equation string, subscripts must be "+
				"in [a-zA-Z]", i)
		}
	}
	return labels, nil
}

// einsum is an equation with known sizes, for kernels and the reference.
type einsum struct {
	terms        []einsumTerm // operands
	resultLabels []int        // labels of the result
	sizes        map[int]int  // by label
}

// newEinsum parses the equation of a call. operandMeta returns the meta of an operand.
func newEinsum(call *graph.Call, operandMeta func(i int) tensor.Meta) (*einsum, error) {
	types := make([]tensor.Type, len(call.In))
	for i := range types {
		types[i] = operandMeta(i).Type()
	}
	parsed, err := parseEquation(kit.Attrs[*einsumAttrs](call).Equation, types)
	if err != nil {
		return nil, err
	}
	result := &einsum{resultLabels: parsed.resultLabels, sizes: map[int]int{}}
	for i, label := range parsed.labels {
		result.sizes[label], _ = parsed.sizes[i].Known()
	}
	for i, labels := range parsed.operandLabels {
		result.addTerm(labels, operandMeta(i), i)
	}
	return result, nil
}

// addTerm adds an operand as a term. It merges dimensions with equal labels, which gives a diagonal, and omits
// dimensions along which the operand broadcasts.
func (e *einsum) addTerm(labels []int, meta tensor.Meta, operand int) {
	term := einsumTerm{buffer: kit.PtrBuffer(1+operand, meta)} // pointer 0 is the result
	for d, label := range labels {
		if meta.Shape[d] == 1 && e.sizes[label] != 1 {
			continue
		}
		if i := slices.Index(term.labels, label); i >= 0 {
			term.strides[i] += meta.Strides[d]
			continue
		}
		term.labels, term.strides = append(term.labels, label), append(term.strides, meta.Strides[d])
	}
	e.terms = append(e.terms, term)
}

// shape returns the sizes of labels.
func (e *einsum) shape(labels []int) []int {
	sizes := make([]int, len(labels))
	for i, label := range labels {
		sizes[i] = e.sizes[label]
	}
	return sizes
}

// einsumTerm is an operand or an intermediate product of an einsum.
type einsumTerm struct {
	labels  []int      // distinct labels
	strides []int      // strides of the labels, in elements
	buffer  kit.Buffer // memory of the elements
}

// stride returns the stride of a label, or 0 if the term does not have the label.
func (term *einsumTerm) stride(label int) int {
	if i := slices.Index(term.labels, label); i >= 0 {
		return term.strides[i]
	}
	return 0
}
