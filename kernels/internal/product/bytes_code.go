package product

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file generates the machine code of [byteTiles], the kernel of a product of m x k by k x n bytes. The result is
// divided into blocks of columns, a block into strips of rows, and a strip into tiles. The sums of a tile are in
// registers. A group is a sequence of elements along the depth k, usually four bytes, that one instruction multiplies.
//
// There is one function for each kind of tile (byteCodeKey). For example, let m = 200, n = 100 and k = 20000, with
// blocks of 64 columns, strips of 100 rows, and tiles of at most 6 rows:
//
//	rows     a strip has 15 tiles of 6 rows and 2 tiles of 5 rows
//	columns  the first block has 64 columns, and the last block has 36
//	groups   the depth has 5000 groups; the first call for a tile multiplies 4096, and the second adds the other 904
//
// Two heights, two widths and two initial values of the sums give eight functions. The loops around the tiles are
// machine code, too: rowCopier copies rows of the first matrix, packer packs the second matrix, and conversionLoop or
// requantizer converts sums to results.

// byteCodeKey identifies the machine code of a kind of tile.
type byteCodeKey struct {
	height      int             // rows of the tile
	isLastBlock bool            // whether the tile is in the last block of columns
	initialSum  tile.InitialSum // initial values of sums: 0, a value for each column, or the sums of an earlier call
	groups      int             // number of groups, which is built into code for the matrix unit; 0 for other code
}

// compile generates the code of all tiles.
func (t *byteTiles) compile() (err error) {
	for _, key := range t.codeKeys() {
		if t.codes[key], err = tile.Compile(t.spec(key), machine.HostFeatures()); err != nil {
			return fmt.Errorf("product of bytes: %w", err)
		}
	}
	return nil
}

// codeKeys returns the keys of all tiles, some of them repeatedly. Only the last call for a tile may have fewer than
// maxCallGroups groups.
func (t *byteTiles) codeKeys() (keys []byteCodeKey) {
	initialSums := []tile.InitialSum{t.firstInitialSum()}
	if t.groups > maxCallGroups {
		initialSums = append(initialSums, tile.FromResult)
	}
	firstCallGroups, lastCallGroups := min(t.groups, maxCallGroups), (t.groups-1)%maxCallGroups+1
	for _, height := range t.tileHeights() {
		for _, isLastBlock := range []bool{false, true} {
			if !isLastBlock && t.blocks() == 1 {
				continue
			}
			for _, initialSum := range initialSums {
				keys = append(keys, t.codeKey(height, isLastBlock, initialSum, firstCallGroups),
					t.codeKey(height, isLastBlock, initialSum, lastCallGroups))
			}
		}
	}
	return keys
}

// tileHeights returns the heights of all tiles, some of them repeatedly. All strips but the last have equal heights.
func (t *byteTiles) tileHeights() (heights []int) {
	firstStripRows, lastStripRows := min(t.m, t.stripRows), t.m-(t.strips()-1)*t.stripRows
	for _, rows := range []int{firstStripRows, lastStripRows} {
		for _, stack := range tileStacks(rows, t.height) {
			if stack.tiles > 0 {
				heights = append(heights, stack.height)
			}
		}
	}
	return heights
}

// tileStack is a column of tiles of equal height.
type tileStack struct {
	firstRow int // in the strip
	height   int // rows of a tile
	tiles    int // number of tiles
}

// tileStacks divides the rows of a strip into tiles as evenly as possible: tiles of the greater height, then tiles with
// one row less. No tile has more than maxHeight rows. For example, 20 rows with at most 6 rows per tile give 4 tiles of
// 5 rows, and 21 rows give 1 tile of 6 rows and 3 tiles of 5 rows. The second stack may have no tiles.
func tileStacks(rows, maxHeight int) [2]tileStack {
	tiles := kit.DivUp(rows, maxHeight)
	height := kit.DivUp(rows, tiles)
	tallTiles := rows - tiles*(height-1) // number of tiles of the greater height
	return [2]tileStack{
		{firstRow: 0, height: height, tiles: tallTiles},
		{firstRow: tallTiles * height, height: height - 1, tiles: tiles - tallTiles}}
}

// firstInitialSum returns the initial values of the sums in the first call for a tile. Later calls start from the sums
// of the previous call.
func (t *byteTiles) firstInitialSum() tile.InitialSum {
	if t.hasInitialSums {
		return tile.FromLanes // one value for each column
	}
	return tile.Zero
}

// codeKey returns the key of the code of tiles that multiply the given number of groups.
func (t *byteTiles) codeKey(height int, isLastBlock bool, initialSum tile.InitialSum, groups int) byteCodeKey {
	if !t.usesMatrixUnit {
		groups = 0
	}
	return byteCodeKey{height: height, isLastBlock: isLastBlock, initialSum: initialSum, groups: groups}
}

// spec describes the code of a tile to package tile, where operand a is In and operand b is Vec.
func (t *byteTiles) spec(key byteCodeKey) *tile.Spec {
	spec := t.tileSpec(t.rowCopier.readsSigned)
	spec.Rows, spec.Vectors = key.height, t.vectors
	spec.InitialSum, spec.Epilogue = key.initialSum, t.epilogue.Steps
	if t.usesMatrixUnit {
		t.useMatrixUnit(spec, key)
	}
	if key.isLastBlock {
		t.limitColumns(spec)
	}
	return spec
}

// useMatrixUnit makes the code use the matrix unit. The number of groups and the distances between rows become
// constants of the code. With a tileConversion, the code also converts the sums to bytes.
func (t *byteTiles) useMatrixUnit(spec *tile.Spec, key byteCodeKey) {
	spec.MatrixUnit, spec.Quantized, spec.PrefetchedLines = true, t.tileConversion, t.prefetchLines
	spec.Runs[0].Terms = key.groups
	for row := range key.height {
		spec.In = append(spec.In, row*t.rowCopier.tileRowStride())
		spec.Out = append(spec.Out, row*t.outStride())
	}
}

// limitColumns limits the code to the columns of the last block. A vector has t.lanes columns.
func (t *byteTiles) limitColumns(spec *tile.Spec) {
	columns := t.n - (t.blocks()-1)*t.width()
	spec.Vectors = kit.DivUp(columns, t.lanes)
	spec.Lanes = columns % t.lanes // columns of the last vector; 0 if it is full
	if spec.Lanes > 0 && tile.DynamicLanes(machine.HostFeatures()) {
		spec.Lanes = tile.Dynamic // an argument of the call
	}
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
