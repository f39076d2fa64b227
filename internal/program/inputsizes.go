package program

import (
	"strconv"

	"github.com/graphrun/graphrun/tensor"
)

// maxInlineSymbols is the number of open symbols up to which sizes are read and looked up without allocation.
const maxInlineSymbols = 16

// sizesKey is the key of a binding: the sizes of the open symbols. If there are more than maxInlineSymbols sizes, they
// are stored as text.
type sizesKey struct {
	array [maxInlineSymbols]int
	text  string
}

// keyOf returns the key of sizes. All keys of a program have the same number of sizes.
func keyOf(sizes []int) (key sizesKey) {
	if len(sizes) > maxInlineSymbols {
		var text []byte // fmt would make the sizes of every caller escape to the heap
		for _, n := range sizes {
			text = append(strconv.AppendInt(text, int64(n), 10), ' ')
		}
		return sizesKey{text: string(text)}
	}
	copy(key.array[:], sizes)
	return key
}

// inputSymbols describes an input whose dimensions have symbols.
type inputSymbols struct {
	input      string
	openIndex  []int // by dimension: the index of its open symbol, or -1
	fixedSizes []int // by dimension: the fixed size of its symbol, or -1 if the symbol is open or absent
}

// findSymbolDims sets p.symbolDims, which describes the inputs whose dimensions have symbols.
func (p *Program) findSymbolDims() {
	indexOf := map[string]int{}
	for i, name := range p.openSymbols {
		indexOf[name] = i
	}
	for _, i := range p.symbolicIndices {
		v := p.graph.Inputs[i]
		symbols := inputSymbols{input: v.Name}
		for _, dim := range v.Dims {
			openIndex, fixedSize := -1, -1
			if index, ok := indexOf[dim.Symbol]; ok && dim.Symbol != "" {
				openIndex = index
			} else if n, ok := p.fixedSizes[dim.Symbol]; ok && dim.Symbol != "" {
				fixedSize = n
			}
			symbols.openIndex, symbols.fixedSizes = append(symbols.openIndex, openIndex), append(symbols.fixedSizes, fixedSize)
		}
		p.symbolDims = append(p.symbolDims, symbols)
	}
}

// readSizes reads the sizes of the open symbols from inputs. It returns false if a size is missing, contradicts another
// input, or differs from a fixed size. A slower path then reports the error.
func (p *Program) readSizes(in map[string]*tensor.Tensor, sizes []int) bool {
	for i := range sizes {
		sizes[i] = -1
	}
	for i := range p.symbolDims {
		symbols := &p.symbolDims[i]
		t := in[symbols.input]
		if t == nil || len(t.Shape) != len(symbols.openIndex) {
			return false
		}
		for dim, size := range t.Shape {
			switch openIndex := symbols.openIndex[dim]; {
			case openIndex < 0:
				if symbols.fixedSizes[dim] >= 0 && symbols.fixedSizes[dim] != size {
					return false
				}
			case sizes[openIndex] < 0:
				sizes[openIndex] = size
			case sizes[openIndex] != size:
				return false
			}
		}
	}
	for _, size := range sizes {
		if size < 0 {
			return false
		}
	}
	return true
}
