package tile

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
)

// Quantized is the dtype of the results of a tile with integer products.
type Quantized uint8

// Dtypes of results. Unsigned and Signed are quantized bytes. A sum is multiplied by the scale of its lane, rounded,
// and added to the zero point with saturation, as in package requantize.
const (
	NotQuantized Quantized = iota // int32 sums, or float32 after an epilogue
	Unsigned
	Signed
)

// Operands of quantized results: indices into Ptr and Row of [jit.Args]. Scales has a float32 for each lane. ZeroPoint
// is one int32.
const (
	Scales = FirstEpilogueOperand + iota
	ZeroPoint
)

const (
	packedVectors     = 4  // number of vectors of sums whose results fill one vector of bytes
	bytesPerSumVector = 16 // with AVX-512, the results of one vector of sums: a byte for each of its 16 lanes
	quantizedRegs     = 3  // registers that quantization needs in addition to the sums and the mask

	zeroPointWord = spillWords // the spill words from this index on hold the zero point, once for each lane
)

// lastVectors returns the number of vectors of sums whose bytes are in the last vector of bytes of a row. In a row of
// six vectors, for example, the last vector of bytes has the results of two.
func (s *Spec) lastVectors() int { return (s.Vectors-1)%packedVectors + 1 }

// beginQuantized computes the mask of the last bytes of a row with AVX-512. With AVX2, SetLastBytes emits nothing. The
// last vector of bytes has the results of lastVectors-1 whole vectors of sums (wholeBytes), and of the valid lanes of
// one more (lastLanes).
func (g *gen) beginQuantized() {
	if g.spec.Quantized == NotQuantized || g.amd64 == nil {
		return
	}
	wholeBytes := int64(bytesPerSumVector * (g.spec.lastVectors() - 1))
	var lastLanes target.Int = target.Imm(g.spec.Lanes)
	switch g.spec.Lanes {
	case Dynamic:
		lastLanes = target.ArgsStep(LastLanes)
	case 0: // all lanes are valid
		lastLanes = target.Imm(bytesPerSumVector)
	}
	temporaries := [2]target.GReg{tempReg, countReg}
	g.quantizer().SetLastBytes(lastLanes, wholeBytes, temporaries)
}

// quantizer returns the writer of the conversion to bytes on amd64. NotNaN is the mask register K3. The fields Temp and
// MaxLevel share free register 1. With AVX2, the writer uses only Temp. With AVX-512, the writer uses MaxLevel, and
// storeQuantized uses Temp after the last use of MaxLevel.
func (g *gen) quantizer() *amd64.Quantizer {
	quantizer := &amd64.Quantizer{Writer: g.amd64, Signed: g.spec.Quantized == Signed, MaxLevel: g.freeRegister(1),
		ZeroPoint: g.freeRegister(2), NotNaN: 3, ZeroPointWord: target.ArgsSpill(zeroPointWord), Temp: g.freeRegister(1)}
	// With AVX2, free register 1 may have the mask. Register 2 is then free, because AVX2 has the zero point in the
	// spill words.
	if g.spec.mayBePartial(g.cpu) && g.mask == quantizer.Temp {
		quantizer.Temp = g.freeRegister(2)
	}
	return quantizer
}

// storeQuantized emits the conversion of the sums to bytes, and their stores. ToLevels converts the sums to levels, the
// quantized numbers in lanes of 32 bits. storePacked packs the levels of up to four vectors, of one row or of several
// rows, into one vector of bytes. Rows of six vectors, for example, are packed as follows:
//
//	row 0: vectors 0 to 3     row 1: vectors 0 to 3
//	row 0: vectors 4 and 5, with row 1: vectors 4 and 5
func (g *gen) storeQuantized() {
	if g.neon != nil {
		g.storeQuantizedNEON()
		return
	}
	g.loadMaskOutsideKLoop()
	scratch := g.freeRegister(0)
	converter := g.quantizer()
	g.loadAddress(ZeroPoint, tempReg)
	converter.Begin(target.Addr{Base: tempReg})
	scales := scratch // eachLanes loads the scales of a vector into this register
	g.eachLanes(Scales, scales, func(i, vector int) {
		g.ToFloats(g.sumReg(i, vector))
		converter.ToLevels(g.sumReg(i, vector), scales)
	})
	order := converter.Temp
	converter.LoadOrder(order)
	lastLanes := g.loadLastLanes()
	for vector := 0; vector < g.spec.Vectors; vector += packedVectors {
		vectors := min(packedVectors, g.spec.Vectors-vector)
		var partialLanes target.Int // lanes of the last vector if it is partial, else nil
		if g.isPartial(vector + vectors - 1) {
			partialLanes = lastLanes
		}
		g.storePacked(converter, order, scratch, vector, vectors, partialLanes)
	}
}

// storePacked packs the levels of a number of vectors of each row, from vector firstVector on, and stores the bytes. If
// there are fewer than packedVectors of them, the vectors of several rows are packed together. partialLanes is as in
// storeQuantized. order is the register of the permutation of [amd64.Quantizer.Arrange].
func (g *gen) storePacked(converter *amd64.Quantizer, order, scratch target.VReg, firstVector, vectors int,
	partialLanes target.Int) {
	maxRows := packedVectors / vectors
	for firstRow := 0; firstRow < g.spec.Rows; firstRow += maxRows {
		rows := min(maxRows, g.spec.Rows-firstRow)
		sums := [packedVectors]target.VReg{scratch, scratch, scratch, scratch} // scratch stands for missing vectors
		for k := range rows * vectors {
			sums[k] = g.sumReg(firstRow+k/vectors, firstVector+k%vectors)
		}
		converter.Pack(sums)              // packs each 128-bit part separately; the result is in sums[0]
		converter.Arrange(sums[0], order) // the bytes of each vector become contiguous
		temporaries := [2]target.GReg{tempReg, vecReg}
		for row := range rows {
			offset := g.spec.Out[firstRow+row] + firstVector*g.vectorBytes/packedVectors
			addr := target.Addr{Base: outTileReg, Disp: offset}
			firstPart := row * vectors // a part has the bytes of one vector of sums
			converter.StoreParts(sums[0], scratch, firstPart, vectors, addr, partialLanes, temporaries)
		}
	}
}

// loadLastLanes returns the number of lanes of the last vector of a row. A dynamic number is loaded into countReg with
// AVX2. AVX-512 does not read countReg, because its stores use the mask of beginQuantized.
func (g *gen) loadLastLanes() target.Int {
	if g.spec.Lanes != Dynamic {
		return target.Imm(g.spec.Lanes)
	}
	if target.UsesVectorMasks(g.cpu) { // AVX2
		g.Move(target.ArgsStep(LastLanes), countReg)
	}
	return countReg
}
