package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// storeQuantizedNEON is storeQuantized for NEON. The number of lanes is a constant. A vector has g.bytes/g.s.Size sums,
// and a sum becomes one byte of the result.
func (g *gen) storeQuantizedNEON() {
	scales, zeroPoint := g.freeRegister(0), g.freeRegister(1)
	g.operand(ZeroPoint, inReg)
	g.Broadcast(target.Addr{Base: inReg}, zeroPoint)
	g.eachLanes(Scales, scales, func(i, v int) { g.neon.Quantize(g.sum(i, v), scales, zeroPoint) })
	for v := 0; v < g.s.Vectors; v += packedVectors {
		n := min(packedVectors, g.s.Vectors-v)
		lanes := n * g.bytes / g.s.Size
		if g.isPartial(v + n - 1) {
			lanes -= g.bytes/g.s.Size - g.s.Lanes
		}
		for i := range g.s.Rows {
			var sums []target.VReg
			for k := range n {
				sums = append(sums, g.sum(i, v+k))
			}
			g.neon.PackBytes(sums, g.s.Quantized == Signed)
			g.neon.StoreBytes(sums[0], target.Addr{Base: outTileReg, Disp: g.s.Out[i] + v*g.bytes/g.s.Size}, lanes)
		}
	}
}
