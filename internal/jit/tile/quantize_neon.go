package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// storeQuantizedNEON is storeQuantized for NEON, where the number of lanes is a constant. Each sum becomes one byte of
// the result.
func (g *gen) storeQuantizedNEON() {
	scales, zeroPoint := g.freeRegister(0), g.freeRegister(1)
	g.loadAddress(ZeroPoint, tempReg)
	g.Broadcast(target.Addr{Base: tempReg}, zeroPoint)
	g.eachLanes(Scales, scales, func(i, vector int) { g.neon.Quantize(g.sumReg(i, vector), scales, zeroPoint) })
	lanesPerVector := g.vectorBytes / g.spec.ElemBytes
	for vector := 0; vector < g.spec.Vectors; vector += packedVectors {
		count := min(packedVectors, g.spec.Vectors-vector) // number of vectors of sums that are packed together
		bytes := count * lanesPerVector                    // number of bytes to store in a row
		if g.isPartial(vector + count - 1) {
			bytes = (count-1)*lanesPerVector + g.spec.Lanes
		}
		for i := range g.spec.Rows {
			var sums []target.VReg
			for k := range count {
				sums = append(sums, g.sumReg(i, vector+k))
			}
			g.neon.PackBytes(sums, g.spec.Quantized == Signed)
			addr := target.Addr{Base: outTileReg, Disp: g.spec.Out[i] + vector*lanesPerVector}
			g.neon.StoreBytes(sums[0], addr, bytes)
		}
	}
}
