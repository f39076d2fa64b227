package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// storeQuantizedNEON is storeQuantized for NEON. The number of lanes is a constant. A vector has g.bytes/g.s.Size
// sums, and a sum becomes one byte of the result.
func (g *gen) storeQuantizedNEON() {
	scales, zeroPoint := g.freeRegister(0), g.freeRegister(1)
	g.loadAddress(ZeroPoint, inReg)
	g.Broadcast(target.Addr{Base: inReg}, zeroPoint)
	g.eachLanes(Scales, scales, func(i, v int) { g.neon.Quantize(g.sumReg(i, v), scales, zeroPoint) })
	for v := 0; v < g.spec.Vectors; v += packedVectors {
		n := min(packedVectors, g.spec.Vectors-v)
		lanes := n * g.vectorBytes / g.spec.Size
		if g.isPartial(v + n - 1) {
			lanes -= g.vectorBytes/g.spec.Size - g.spec.Lanes
		}
		for i := range g.spec.Rows {
			var sums []target.VReg
			for k := range n {
				sums = append(sums, g.sumReg(i, v+k))
			}
			g.neon.PackBytes(sums, g.spec.Quantized == Signed)
			g.neon.StoreBytes(sums[0], target.Addr{Base: outTileReg, Disp: g.spec.Out[i] +
				v*g.vectorBytes/g.spec.Size}, lanes)
		}
	}
}
