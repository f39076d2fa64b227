package winograd

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// Products is code that transforms weights and multiplies by them, without storing the transformed weights. It computes
// a part of the convolution F(4x4, 3x3): some tiles, and one output channel for each lane of a vector. in and out have
// the 6x6 points of transformed tiles, and transform(window) has the 6x6 points of a window of weights:
//
//	out[point][tile][lane] += sum over channels of in[point][tile][channel] * transform(window[channel][lane])[point]
//
// Rows of points are computed one after another. The sums of a row, 6 points by up to [ProductTiles] tiles, stay in
// registers. Row k and column k of the points belong to interpolation point k of the list 0, a, -a, b, -b, infinity.
//
// The transformed weights have the same bits as with [Form.CompileWeights]. The sums over channels have the same order
// as in package tile. Products is immutable, and several goroutines may run it at the same time.
type Products struct{ fn *jit.Func }

const (
	// ProductTiles is the maximum number of tiles of [Products]. 24 of the 32 registers then have sums.
	ProductTiles = 4
	// RowPoints is the number of points of a row.
	RowPoints = 6
	// TransformFMAs is the number of multiply-adds with which [Products] transforms a vector of windows to all points:
	// two for each of 3 columns in 4 of the rows of points (hasPowers), and then six for each of the 6 rows.
	TransformFMAs = 4*3*2 + 6*6
)

// SupportsProducts reports whether [CompileProducts] supports a processor. The code needs 32 registers, and
// multiply-adds that broadcast an operand from memory.
func SupportsProducts(cpu machine.Features) bool { return cpu.Has(machine.AVX512) }

// CompileProducts compiles the products for a number of tiles. The code also prefetches into L2 the windows that follow
// the windows of the call in memory, for the same number of channels.
func CompileProducts(cpu machine.Features, tiles int) (*Products, error) {
	if !SupportsProducts(cpu) || tiles < 1 || tiles > ProductTiles {
		return nil, fmt.Errorf("winograd: there is no code for products of %d tiles on %v", tiles, cpu)
	}
	key := fmt.Sprintf("winograd %v products of %d tiles", cpu, tiles)
	fn, err := jit.Lookup(key, func(withListing bool) (jit.Code, error) {
		gen := &productGen{Writer: amd64.New(cpu, elemBytes, withListing), tiles: tiles}
		gen.emit()
		return gen.Finish()
	})
	if err != nil {
		return nil, err
	}
	return &Products{fn: fn}, nil
}

// Name returns a description of the code.
func (p *Products) Name() string { return p.fn.Name() }

// Listing returns the code in the syntax of the processor's assembler (see [jit.Code]).
func (p *Products) Listing() string { return p.fn.Listing() }

// ProductArrays is the location of the operands and results of [Products].
type ProductArrays struct {
	In, Out           unsafe.Pointer // the first point of the first tile
	Windows           unsafe.Pointer // the weights, as [channel][row of the window][column][lane]
	InPoint, OutPoint int            // bytes between points
	InTile            int            // bytes between tiles in In; in Out, tiles are adjacent
	Channels          int
}

// Indices of the pointers and distances of a call of [Products].
const (
	productOut     = iota // Step: bytes between points
	productIn             // Row: bytes between tiles; Step: bytes between points
	productWindows        // Row: bytes of the windows
	productRowOut         // Step: bytes between rows of points in the output
	productNextIn         // Step: bytes from the end of the channels of a row of points in the input to the next row
)

// Run computes the products. No other goroutine may use args during the call. Addresses are not checked.
func (p *Products) Run(args *jit.Args, arrays *ProductArrays) error {
	args.Ptr[productOut], args.Ptr[productIn], args.Ptr[productWindows] = arrays.Out, arrays.In, arrays.Windows
	args.Row[productIn], args.Row[productWindows] = arrays.InTile, arrays.Channels*windowBytes
	args.Step[productOut], args.Step[productIn] = arrays.OutPoint, arrays.InPoint
	args.Step[productRowOut] = RowPoints * arrays.OutPoint
	args.Step[productNextIn] = RowPoints*arrays.InPoint - elemBytes*arrays.Channels
	args.InnerCount = arrays.Channels
	return p.fn.Call(args)
}

// Registers of the code. Six registers from inReg on have the addresses of the points of a row, of the first tile and
// the current channel. Vector registers 0 to 23 have sums.
const (
	inReg       target.GReg = 0
	inTileReg   target.GReg = 6 // bytes between tiles
	inTile3Reg  target.GReg = 7 // 3 times inTileReg
	windowsReg  target.GReg = 8
	prefetchReg target.GReg = 9
	countReg    target.GReg = 10
	outReg      target.GReg = 11
	columnVec   target.VReg = 24 // 3 registers: the columns of the window, transformed for the row of points
	positiveVec target.VReg = 27 // the weights of a point p
	negativeVec target.VReg = 28 // the weights of -p
	pointVec    target.VReg = 29 // the row's interpolation point
	squareVec   target.VReg = 30 // its square
)

const (
	elemBytes     = 4 // float32
	vectorBytes   = 64
	windowBytes   = windowSize * windowSize * vectorBytes
	unrolledTerms = 4 // channels per iteration
	// prefetchedLines is the number of cache lines that an iteration prefetches. Together, the iterations of all rows
	// prefetch each line of the following windows once.
	prefetchedLines = unrolledTerms * windowBytes / machine.LineBytes / RowPoints
)

// wholeVector is the last argument of Load and Store, which states whether the vector is partial.
const wholeVector = false

// productGen generates the code of [Products].
type productGen struct {
	*amd64.Writer
	tiles int
	row   int // the current row of points
}

// finitePoints has the finite interpolation points of F(4x4), in their order.
var finitePoints = [...]float64{0, pointA, -pointA, pointB, -pointB}

// emit emits the code.
func (g *productGen) emit() {
	pointBytes := inTileReg // until inTileReg gets its own value
	g.Move(target.ArgsStep(productIn), pointBytes)
	g.Move(target.ArgsPtr(productIn), inReg)
	for point := target.GReg(1); point < RowPoints; point++ {
		g.Lea(target.Addr{Base: inReg + point - 1, Index: pointBytes, Scale: 1}, inReg+point)
	}
	g.Move(target.ArgsRow(productIn), inTileReg)
	g.Lea(target.Addr{Base: inTileReg, Index: inTileReg, Scale: 2}, inTile3Reg)
	g.Move(target.ArgsPtr(productOut), outReg)
	g.Move(target.ArgsPtr(productWindows), prefetchReg)
	g.Add(target.ArgsRow(productWindows), prefetchReg)
	for g.row = range RowPoints {
		g.emitRow()
	}
	g.Return()
}

// emitRow emits the code of a row of points.
func (g *productGen) emitRow() {
	g.moveSums(func(sum target.VReg, addr target.Addr) { g.Load(addr, sum, wholeVector) })
	g.Sub(target.ArgsStep(productRowOut), outReg) // moveSums advanced outReg; the sums are stored to the same row later
	if g.hasPowers() {
		p := finitePoints[g.row]
		g.BroadcastNumber(p, pointVec)
		g.BroadcastNumber(p*p, squareVec)
	}
	g.Move(target.ArgsPtr(productWindows), windowsReg)
	g.channelLoop()
	g.moveSums(func(sum target.VReg, addr target.Addr) { g.Store(sum, addr, wholeVector) })
	for point := range target.GReg(RowPoints) {
		g.Add(target.ArgsStep(productNextIn), inReg+point)
	}
}

// hasPowers reports whether the transform multiplies by powers of the row's interpolation point, which is then not 0 or
// infinity.
func (g *productGen) hasPowers() bool { return g.row > 0 && g.row < len(finitePoints) }

// moveSums loads or stores the sums of a row. It advances outReg to the next row.
func (g *productGen) moveSums(move func(sum target.VReg, addr target.Addr)) {
	for point := range RowPoints {
		for tile := range g.tiles {
			move(g.sum(point, tile), target.Addr{Base: outReg, Disp: tile * vectorBytes})
		}
		g.Add(target.ArgsStep(productOut), outReg)
	}
}

// sum returns the register of the sum of a point of the row and a tile.
func (g *productGen) sum(point, tile int) target.VReg { return target.VReg(point*g.tiles + tile) }

// channelLoop emits the loops over channels: an unrolled one, and one for the remaining channels.
func (g *productGen) channelLoop() {
	unrolled, single, remainder, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	terms := func(count int) {
		for channel := range count {
			g.term(channel)
		}
		for point := range target.GReg(RowPoints) {
			g.Add(target.Imm(elemBytes*count), inReg+point)
		}
		g.Add(target.Imm(windowBytes*count), windowsReg)
	}
	g.Move(target.ArgsWord(jit.OffsetInnerCount), countReg)
	g.AddJump(-unrolledTerms, countReg, target.LT, remainder) // countReg: remaining channels - unrolledTerms
	g.Align(32)
	g.Bind(unrolled)
	for line := range prefetchedLines {
		g.Prefetch(target.L2, target.Addr{Base: prefetchReg, Disp: line * machine.LineBytes})
	}
	g.Add(target.Imm(prefetchedLines*machine.LineBytes), prefetchReg)
	terms(unrolledTerms)
	g.AddJump(-unrolledTerms, countReg, target.GE, unrolled)
	g.Bind(remainder)
	g.AddJump(unrolledTerms, countReg, target.LE, end) // countReg: remaining channels
	g.Bind(single)
	terms(1)
	g.CountDown(countReg, target.GT, single)
	g.Bind(end)
}

// term transforms the window of a channel, counted from the current one, and adds the products with the points of the
// tiles. The operations are as in [Form.weightTransform], first for the columns and then for the row.
func (g *productGen) term(channel int) {
	for col := range windowSize {
		g.transformColumn(channel, col)
	}
	first, middle, last := columnVec, columnVec+1, columnVec+2
	g.multiply(0, channel, first)                           // the point 0
	g.multiply(len(finitePoints), channel, last)            // the point infinity
	for point := 1; point < len(finitePoints); point += 2 { // the points p and -p
		p := finitePoints[point]
		g.Copy(first, positiveVec)
		g.FMA(broadcast(p*p), last, positiveVec)
		g.Copy(positiveVec, negativeVec)
		g.FMA(broadcast(p), middle, positiveVec)
		g.FMA(broadcast(-p), middle, negativeVec)
		g.multiply(point, channel, positiveVec)
		g.multiply(point+1, channel, negativeVec)
	}
}

// transformColumn transforms a column of the window of a channel for the row of points.
func (g *productGen) transformColumn(channel, col int) {
	weight := func(row int) target.Addr {
		return target.Addr{Base: windowsReg, Disp: channel*windowBytes + (row*windowSize+col)*vectorBytes}
	}
	column := columnVec + target.VReg(col)
	switch {
	case g.hasPowers():
		g.Load(weight(0), column, wholeVector)
		g.FMA(weight(2), squareVec, column)
		g.FMA(weight(1), pointVec, column)
	case g.row == 0: // the point 0
		g.Load(weight(0), column, wholeVector)
	default: // the point infinity
		g.Load(weight(2), column, wholeVector)
	}
}

// multiply adds the products of the weights of a point with the tiles to the sums.
func (g *productGen) multiply(point, channel int, weights target.VReg) {
	for tile := range g.tiles {
		addr := target.Addr{Base: inReg + target.GReg(point), Index: inTileReg, Scale: uint8(tile),
			Disp: elemBytes * channel}
		switch tile { // 1 and 2 are scales
		case 0: // no index
			addr.Index = 0
		case 3: // not a scale
			addr.Index, addr.Scale = inTile3Reg, 1
		}
		g.FMABroadcast(addr, weights, g.sum(point, tile))
	}
}

// broadcast returns a constant that is broadcast to all lanes.
func broadcast(number float64) target.Constant {
	return target.Constant(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number))))
}
