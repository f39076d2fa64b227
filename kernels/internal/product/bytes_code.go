package product

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file generates the machine code of [byteTiles]: one function for each kind of tile that a strip needs. For
// example, a strip of 11 rows has tiles of 6 and of 5 rows, and the last block can have fewer columns than the others.

// byteCodeKey identifies the machine code of a tile.
type byteCodeKey struct {
	height      int             // rows of the tile
	isLastBlock bool            // whether the tile is in the last block of columns
	initialSum  tile.InitialSum // initial values of sums: 0, a value for each column, or the sums of an earlier call
	groups      int             // number of groups, which is built into code for the matrix unit; 0 for other code
}

// compile generates the code of all tiles.
func (t *byteTiles) compile() error {
	initialSums := []tile.InitialSum{t.firstInitialSum()}
	if t.groups > maxCallGroups {
		initialSums = append(initialSums, tile.FromResult)
	}
	// All strips but the last have equal heights, so these are the only two.
	firstRows, lastRows := min(t.m, t.stripRows), t.m-(t.strips()-1)*t.stripRows
	for _, rows := range []int{firstRows, lastRows} {
		for _, stack := range t.stacks(rows) {
			if stack.tiles == 0 {
				continue
			}
			if err := t.compileTiles(stack.height, initialSums); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstInitialSum returns the initial values of the sums in the calls for the first groups of a strip. Calls for later
// groups start from the sums of the earlier groups.
func (t *byteTiles) firstInitialSum() tile.InitialSum {
	if t.hasInitialSums {
		return tile.FromLanes
	}
	return tile.Zero
}

// byteStack is a column of tiles of equal height.
type byteStack struct {
	firstRow int // in the strip
	height   int // rows of a tile
	tiles    int // number of tiles
}

// stacks divides the rows of a strip into tiles as evenly as possible: tiles of the greater height, then tiles with one
// row less.
func (t *byteTiles) stacks(rows int) [2]byteStack {
	tiles := kit.DivUp(rows, t.height)
	height := kit.DivUp(rows, tiles)
	tallTiles := rows - tiles*(height-1) // number of tiles of the greater height
	return [2]byteStack{
		{firstRow: 0, height: height, tiles: tallTiles},
		{firstRow: tallTiles * height, height: height - 1, tiles: tiles - tallTiles}}
}

// compileTiles generates the code of tiles of the given height, for each of the initial sums.
func (t *byteTiles) compileTiles(height int, initialSums []tile.InitialSum) (err error) {
	// The number of groups in each call but the last, and in the last call.
	callGroups := []int{min(t.groups, maxCallGroups), (t.groups-1)%maxCallGroups + 1}
	for _, isLastBlock := range []bool{false, true} {
		if !isLastBlock && t.blocks() == 1 {
			continue
		}
		for _, initialSum := range initialSums {
			for _, groups := range callGroups {
				key := t.codeKey(height, isLastBlock, initialSum, groups)
				if t.codes[key], err = tile.Compile(t.spec(key), machine.HostFeatures()); err != nil {
					return fmt.Errorf("product of bytes: %w", err)
				}
			}
		}
	}
	return nil
}

// codeKey returns the key of the code of tiles that multiply the given number of groups.
func (t *byteTiles) codeKey(height int, isLastBlock bool, initialSum tile.InitialSum, groups int) byteCodeKey {
	if !t.usesMatrixUnit {
		groups = 0
	}
	return byteCodeKey{height: height, isLastBlock: isLastBlock, initialSum: initialSum, groups: groups}
}

// spec describes the code of a tile.
func (t *byteTiles) spec(key byteCodeKey) *tile.Spec {
	spec := t.tileSpec(t.rowCopier.readsSigned)
	spec.Rows, spec.Vectors = key.height, t.vectors
	spec.InitialSum, spec.Epilogue = key.initialSum, t.epilogue.Steps
	if t.usesMatrixUnit {
		spec.MatrixUnit, spec.Quantized, spec.PrefetchedLines = true, t.tileConversion, t.prefetchLines
		spec.Runs[0].Terms = key.groups
		for row := range key.height {
			spec.In = append(spec.In, row*t.rowCopier.tileRowStride())
			spec.Out = append(spec.Out, row*t.outStride())
		}
	}
	if key.isLastBlock {
		columns := t.n - (t.blocks()-1)*t.width()
		spec.Vectors = kit.DivUp(columns, t.lanes)
		if spec.Lanes = columns % t.lanes; spec.Lanes > 0 && tile.DynamicLanes(machine.HostFeatures()) {
			spec.Lanes = tile.Dynamic
		}
	}
	return spec
}

// listings returns the code of the tiles and of the loops around them.
func (t *byteTiles) listings() (list []expr.Listing) {
	for height := t.height; height > 0; height-- {
		for _, isLastBlock := range []bool{false, true} {
			for _, initialSum := range []tile.InitialSum{tile.Zero, tile.FromLanes, tile.FromResult} {
				key := t.codeKey(height, isLastBlock, initialSum, min(t.groups, maxCallGroups))
				if code := t.codes[key]; code != nil {
					list = append(list, expr.Listing{Name: key.listingName(), Assembly: code.Listing})
				}
			}
		}
	}
	if t.conversionLoop != nil {
		list = append(list, t.conversionLoop.Listing("finish"))
	}
	if t.requantizer != nil {
		list = append(list, t.requantizer.Listing())
	}
	if t.rowCopier.loop != nil {
		list = append(list, t.rowCopier.loop.Listing("rows"))
	}
	if !t.isPacked {
		list = append(list, t.packer.joinCode.Listing("panels"))
	}
	return list
}

// listingName returns the name of the code in listings.
func (key byteCodeKey) listingName() string {
	name := fmt.Sprintf("tiles of %d rows", key.height)
	if key.isLastBlock {
		name += ", last columns"
	}
	if key.initialSum == tile.FromResult {
		name += ", later terms"
	}
	return name
}
