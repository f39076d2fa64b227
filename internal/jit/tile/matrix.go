package tile

// This file emits products of byte matrices ([Spec.Int8Matrix]). One instruction adds to a 2x2 block of sums: two lanes
// of two rows. In the k-loop, the accumulators of a vector therefore have another layout than in other tiles. For the
// rows 0 and 1, where s1[2] is the sum of row 1 in lane 2:
//
//	accumulator   in the k-loop             outside the k-loop
//	of row 0      s0[0] s0[1] s1[0] s1[1]   s0[0] s0[1] s0[2] s0[3]
//	of row 1      s0[2] s0[3] s1[2] s1[3]   s1[0] s1[1] s1[2] s1[3]
//
// If the number of rows is odd, accumulators are reserved for one more row, whose sums are not used.

// int8MatrixTerm emits the products of one iteration of the k-loop (a term). inOffset is the offset of the term in the
// broadcast operand.
func (g *gen) int8MatrixTerm(inOffset int) {
	for i := 0; i < g.spec.Rows; i += 2 {
		rowPair := g.nextElementRegister() // the eight bytes of row i, then of row i+1
		if i+1 < g.spec.Rows {
			g.neon.LoadPair(g.rowAddr(i, inOffset), g.rowAddr(i+1, inOffset), rowPair)
		} else { // row i+1 is missing
			g.LoadElements(g.rowAddr(i, inOffset), 2, rowPair)
		}
		for vector := range g.spec.Vectors {
			for lanePair := range 2 {
				g.neon.MatrixProduct(rowPair, g.vectorReg(2*vector+lanePair), g.sumReg(i+lanePair, vector), g.spec.SignedIn)
			}
		}
	}
}

// convertSumLayout converts the accumulators from one layout to the other.
func (g *gen) convertSumLayout() {
	for i := 0; i < g.spec.Rows; i += 2 {
		for vector := range g.spec.Vectors {
			g.neon.ExchangeHalves(g.sumReg(i, vector), g.sumReg(i+1, vector))
		}
	}
}
