package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// storeQuantizedNEON is storeQuantized for NEON, where the number of lanes is a constant. Each sum becomes one byte of
// the result.
func (g *gen) storeQuantizedNEON() {
	scales, zeroPoint := g.freeRegister(0), g.freeRegister(1)
	g.loadAddress(ZeroPoint, tempReg)
	g.Broadcast(target.Addr{Base: tempReg}, zeroPoint)
	g.eachLanes(Scales, scales, func(i, vector int) { g.neon.Quantize(g.sumReg(i, vector), scales, zeroPoint) })
	for vector := 0; vector < g.spec.Vectors; vector += packedVectors {
		count := min(packedVectors, g.spec.Vectors-vector) // number of vectors of sums that are packed together
		lanes := count * g.vectorBytes / g.spec.ElemBytes
		if g.isPartial(vector + count - 1) {
			lanes -= g.vectorBytes/g.spec.ElemBytes - g.spec.Lanes
		}
		for i := range g.spec.Rows {
			var sums []target.VReg
			for k := range count {
				sums = append(sums, g.sumReg(i, vector+k))
			}
			g.neon.PackBytes(sums, g.spec.Quantized == Signed)
			g.neon.StoreBytes(sums[0], target.Addr{Base: outTileReg, Disp: g.spec.Out[i] +
				vector*g.vectorBytes/g.spec.ElemBytes}, lanes)
		}
	}
}
