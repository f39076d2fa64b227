package tile

// This file emits products of byte matrices ([Spec.Int8Matrix]). In the k-loop, an accumulator register has 2x2 sums:
// two lanes of each of the rows i and i+1, for an even i. Two registers thus have the four lanes of a vector for these
// rows: one has the lower two lanes, the other the upper two. Outside the k-loop, each register has the four lanes of
// one row, as in other tiles.

// int8MatrixTerm emits the products of a term, an iteration of the k-loop. inOffset is the offset of the term in the
// broadcast operand.
func (g *gen) int8MatrixTerm(inOffset int) {
	for i := 0; i < g.spec.Rows; i += 2 {
		pair := g.nextElementRegister() // the eight bytes of row i, then of row i+1
		if i+1 < g.spec.Rows {
			g.neon.LoadPair(g.rowAddr(i, inOffset), g.rowAddr(i+1, inOffset), pair)
		} else { // the last row has no partner; the sums of the other half of the register are not used
			g.LoadElements(g.rowAddr(i, inOffset), 2, pair)
		}
		for vector := range g.spec.Vectors {
			for half := range 2 {
				g.neon.MatrixProduct(pair, g.vectorReg(2*vector+half), g.sumReg(i+half, vector), g.spec.SignedIn)
			}
		}
	}
}

// convertSumLayout converts the accumulators from one row per register to 2x2 sums per register, or back.
func (g *gen) convertSumLayout() {
	for i := 0; i < g.spec.Rows; i += 2 {
		for vector := range g.spec.Vectors {
			g.neon.ExchangeHalves(g.sumReg(i, vector), g.sumReg(i+1, vector))
		}
	}
}
