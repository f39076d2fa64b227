package writer

import (
	"strings"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// MaxByteResults is the maximum number of results (output pixels) whose sums [ByteDepthwise] keeps in registers at the
// same time. The sums of a result occupy four registers.
const MaxByteResults = 4

// ByteDepthwise writes the vector instructions of depthwise convolutions of bytes, for package depthwise. A result is
// one output pixel with 16 channels. Its int32 sums occupy four registers: register q has channels 4q to 4q+3, a
// quarter of the channels.
type ByteDepthwise struct {
	*Writer
	spec       target.ByteDepthwise
	nextWeight int // number of weights loaded so far; selects one of the weight registers in rotation
}

// Vector registers. The registers below firstTemp hold the sums.
const (
	firstTemp   = target.VReg(4 * MaxByteResults) // the first of six registers for pixels or four scales
	firstWeight = firstTemp + 6                   // the first of weightRegs registers for weights
	zeroRow     = firstWeight + weightRegs        // zeros, in place of missing rows
	signBits    = zeroRow + 1                     // the sign bit of each byte
	zeroPoint   = zeroRow + 2                     // the zero point of the result in all lanes

	weightRegs = 4 // several registers let loads overlap with multiplications
)

// NewByteDepthwise returns a ByteDepthwise for a spec.
func NewByteDepthwise(spec target.ByteDepthwise, withListing bool) *ByteDepthwise {
	const sumBytes = 4
	return &ByteDepthwise{Writer: New(sumBytes, withListing), spec: spec}
}

// wholeVector is the last argument of Load and Store for all lanes.
const wholeVector = false

// byteVec returns a vector register with elements of one byte.
func byteVec(v target.VReg) asm.Vec { return asm.V(int(v), asm.B) }

// Begin loads constants. zeroPointAddr is the address of the zero point.
func (g *ByteDepthwise) Begin(zeroPointAddr target.Addr) {
	if !g.spec.Sums {
		g.Broadcast(zeroPointAddr, zeroPoint)
	}
	g.Clear(zeroRow)
	if g.spec.FlipSigns {
		g.Copy(target.Constant(strings.Repeat("\x80", 16)), signBits)
	}
}

// loadPixel loads the pixel of a row into a register and, if spec.FlipSigns is set, flips the sign bits of its bytes.
// It returns the register or, for a row beyond the list, the register of zeros.
func (g *ByteDepthwise) loadPixel(pixels []target.Addr, row int, to target.VReg) asm.Vec {
	if row >= len(pixels) {
		return byteVec(zeroRow)
	}
	g.Load(pixels[row], to, wholeVector)
	if g.spec.FlipSigns {
		g.Emit("eor", byteVec(to), byteVec(to), byteVec(signBits))
	}
	return byteVec(to)
}

// Interleave loads the pixels of an input column in up to four rows, and interleaves their bytes by channel. Each of
// the four registers that it returns has a quarter of the channels, with four bytes for each channel: one of each row.
// The first register begins with channel 0 of rows 0 to 3, then channel 1 of rows 0 to 3.
func (g *ByteDepthwise) Interleave(pixels []target.Addr) [4]target.VReg {
	temp := func(i int) target.VReg { return firstTemp + target.VReg(i) }
	var rows [4]asm.Vec
	for i := range rows {
		rows[i] = g.loadPixel(pixels, i, temp(i))
	}
	// zip interleaves the elements of a and b. low gets the low half of the channels, and high the high half. high may
	// be the register of a, because zip2 is the last instruction that reads a.
	zip := func(a, b asm.Vec, low, high target.VReg) {
		g.Emit("zip1", byteVec(low).As(a.Elem), a, b)
		g.Emit("zip2", byteVec(high).As(a.Elem), a, b)
	}
	zip(rows[0], rows[1], temp(4), temp(0))                            // rows 0 and 1; rows[0] is temp(0)
	zip(rows[2], rows[3], temp(5), temp(2))                            // rows 2 and 3; rows[2] is temp(2) or zero
	pairs := func(i int) asm.Vec { return byteVec(temp(i)).As(asm.H) } // of the bytes of two rows
	zip(pairs(4), pairs(5), temp(1), temp(3))                          // all rows, low half of the channels
	zip(pairs(0), pairs(2), temp(4), temp(5))                          // all rows, high half of the channels
	return [4]target.VReg{temp(1), temp(3), temp(4), temp(5)}
}

// Multiply adds the products of interleaved pixels and weights to a sum. Each int32 lane of the sum is a channel, and
// gets the products of the channel's four rows.
func (g *ByteDepthwise) Multiply(weights target.Addr, pixels, sum target.VReg) {
	weightReg := firstWeight + target.VReg(g.nextWeight%weightRegs)
	g.nextWeight++
	g.Load(weights, weightReg, wholeVector)
	name := "usdot"
	if g.spec.SignedIn {
		name = "sdot"
	}
	g.Emit(name, asm.V(int(sum), asm.S), byteVec(pixels), byteVec(weightReg))
}

// LoadScales loads the scales of StoreResult into the registers that Interleave uses.
func (g *ByteDepthwise) LoadScales(addr target.Addr) {
	for q := range target.VReg(4) {
		g.Load(addr, firstTemp+q, wholeVector)
		addr.Disp += 16
	}
}

// StoreResult writes a result: the sums, or bytes after scaling, rounding and saturation.
func (g *ByteDepthwise) StoreResult(sums [4]target.VReg, addr target.Addr) {
	channels := 16 // number of channels to write
	if g.spec.Channels > 0 {
		channels = g.spec.Channels
	}
	for q, v := range sums {
		if g.spec.Sums {
			channelsOfQuarter := min(max(channels-4*q, 0), 4)
			g.StoreBytes(v, addr, 4*channelsOfQuarter)
			addr.Disp += 16
		} else {
			g.Quantize(v, firstTemp+target.VReg(q), zeroPoint)
		}
	}
	if !g.spec.Sums {
		g.PackBytes(sums[:], g.spec.Signed)
		g.StoreBytes(sums[0], addr, channels)
	}
}
