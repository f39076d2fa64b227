package product

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file generates the code of a [levelProduct]: the machine code of its register tiles, and the loops that convert
// levels, the packed integers of the weight, to float32. A term is an index of the depth, and a block is a range of
// terms with the same scale. A tile multiplies some rows of the input (In) by a panel (Vec), the levels of adjacent
// columns of the result. With thinLevels, a panel has packed levels, and a tile multiplies some whole blocks. With
// tiledLevels, a panel has levels that were converted to float32.

// levelCodeKey identifies the machine code of a tile in levelProduct.codes.
type levelCodeKey struct {
	rows, terms int             // rows of a tile; terms of a block for thinLevels, else 0
	initialSum  tile.InitialSum // initial values of sums
	isLast      bool            // whether the tile computes the last terms
}

// compileTiles generates the code of all tiles.
func (p *levelProduct) compileTiles() error {
	termCounts := []int{0} // values of levelCodeKey.terms
	if p.algorithm == thinLevels {
		termCounts[0] = p.blockElements
		if remaining := p.k % p.blockElements; remaining > 0 { // the shorter last block
			termCounts = append(termCounts, remaining)
		}
	}
	lastBandRows := p.m - (p.bands-1)*p.bandRows // the rows of the result are divided into bands
	for _, rows := range []int{p.bandRows, lastBandRows} {
		for _, stack := range tileStacks(rows, p.maxHeight) { // a stack has tiles of equal height
			if stack.tiles == 0 {
				continue
			}
			for _, terms := range termCounts {
				if err := p.compileTile(stack.height, terms); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compileTile generates the code of tiles of the given height. First and later terms have separate code, as have last
// and other terms. terms is as in [levelCodeKey].
func (p *levelProduct) compileTile(height, terms int) (err error) {
	for _, start := range []tile.InitialSum{p.initialSum(0), tile.FromResult} {
		for _, isLast := range []bool{false, true} {
			key := levelCodeKey{rows: height, terms: terms, initialSum: start, isLast: isLast}
			if p.codes[key], err = tile.Compile(p.spec(key), machine.HostFeatures()); err != nil {
				return fmt.Errorf("product of levels: %w", err)
			}
		}
	}
	return nil
}

// initialSum returns the initial values of the sums for a tile that multiplies terms from firstTerm on.
func (p *levelProduct) initialSum(firstTerm int) tile.InitialSum {
	switch {
	case firstTerm > 0:
		return tile.FromResult
	case p.hasBias:
		return tile.FromLanes
	}
	return tile.Zero
}

// spec describes the code of a tile. Elements and sums are float32.
func (p *levelProduct) spec(key levelCodeKey) *tile.Spec {
	spec := &tile.Spec{ElemBytes: floatBytes, Rows: key.rows, Vectors: p.tileVectors(), InitialSum: key.initialSum}
	if p.algorithm == thinLevels {
		spec.VecQuantization = tile.VecQuantization{Bits: p.levelBits(), HasZeroPoints: p.hasZeros}
		for i := range key.rows {
			spec.In = append(spec.In, floatBytes*i*p.k) // byte offset of row i
		}
		termBytes := p.termBytes()
		spec.Runs = []tile.Run{{InStep: floatBytes, VecStep: termBytes, Terms: key.terms}} // one block
		// Each iteration sums one block, and scales this sum.
		const tripsPerBlock = 1
		spec.Loops = []tile.Loop{{InStep: floatBytes * key.terms, VecStep: termBytes * key.terms, Block: tripsPerBlock,
			Trips: tile.Dynamic}}
	} else {
		if key.initialSum == tile.FromResult { // sum these terms first, and then add the sum of earlier terms
			spec.InitialSum, spec.Epilogue = tile.Zero, []tile.EpilogueStep{{Op: tile.AddResult}}
		}
		spec.Runs = []tile.Run{{InStep: floatBytes, VecStep: floatBytes * p.width(), Terms: tile.Dynamic}}
		spec.Tiles = tile.Loop{InStep: tile.Dynamic, OutStep: tile.Dynamic}
	}
	if key.isLast {
		spec.Epilogue = append(spec.Epilogue, p.epilogue.Steps...)
	}
	return spec
}

// maxTileRows returns the maximum number of rows of a tile, which the number of registers limits. A row needs a
// register of sums for each vector. All rows share a register of levels for each vector, and a register for an element
// of the input.
func (shape *levelShape) maxTileRows(algorithm levelAlgorithm) int {
	registers, _ := tile.VectorRegisters(machine.HostFeatures())
	if algorithm == thinLevels {
		sharedPerVector := 1 // registers that the rows share
		if shape.hasZeros {
			sharedPerVector = 2 // zero points take a register, like levels
		}
		return max(1, min(multiply.MaxThin, (registers-1)/shape.vectors-sharedPerVector))
	}
	if tile.ElementsPerLoad(machine.HostFeatures(), floatBytes) > 1 { // each row has a register for several elements
		return (registers - levelVectors) / (levelVectors + 1) // a tile has all levelVectors vectors of a panel
	}
	// A tile has two vectors (tileVectors). The rows share 3 registers: one for each vector, and one for an element.
	return min(tile.MaxDynamicRows, (registers-3)/2)
}

// tileVectors returns the number of vectors of a tile.
func (p *levelProduct) tileVectors() int {
	if p.algorithm == thinLevels || tile.ElementsPerLoad(machine.HostFeatures(), floatBytes) > 1 {
		return p.vectors
	}
	return 2
}

// compileConversions compiles the loops that convert levels to elements: (level - zero point) * scale. A byte of a
// 4-bit panel has two signed levels. The first loop converts the low half of each byte, and the second loop converts
// the high half.
func (p *levelProduct) compileConversions() (err error) {
	formulas := []string{"float32(int32(q) << 28 >> 28)", "float32(int32(q) >> 4)"}
	if p.levelBits() == 8 {
		formulas = []string{"float32(q)"}
	}
	names, types := []string{"q", "scale"}, []tensor.DType{tensor.Int8, tensor.Float32} // q is the byte
	if p.hasZeros {
		names, types = append(names, "zero"), append(types, tensor.Int8)
	}
	for i, formula := range formulas {
		if p.hasZeros {
			formula = fmt.Sprintf("(%s - float32(zero))", formula)
		}
		var onePerRow []bool // nil: no operand has only one element per row
		p.converters[i], err = kit.FormulaLoop(formula+" * scale", names, types, onePerRow, tensor.Float32)
		if err != nil {
			return err
		}
	}
	return nil
}

// listings returns the code of the tiles that compute the last terms, and of the loops that convert levels.
func (p *levelProduct) listings() (list []expr.Listing) {
	for height := p.maxHeight; height > 0; height-- {
		for key, function := range p.codes {
			isWholeBlock := key.terms == 0 || key.terms == p.blockElements
			if key.rows == height && key.isLast && key.initialSum != tile.FromResult && isWholeBlock {
				list = append(list, expr.Listing{Name: fmt.Sprintf("tiles of %d rows", height), Assembly: function.Listing})
			}
		}
	}
	for i, loop := range p.converters {
		if loop != nil {
			list = append(list, loop.Listing([]string{"convert", "convert the upper half"}[i]))
		}
	}
	return list
}
