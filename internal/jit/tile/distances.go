package tile

import (
	"fmt"
	"math"
)

// maxDistance bounds a distance in bytes, so that the sum of two distances and of an offset within the tile fits into a
// displacement of 32 bits.
const maxDistance = 1<<30 - 1<<16

// checkDistances rejects distances, and sums of distances, that do not fit into 32-bit displacements and immediates.
func (s *Spec) checkDistances() error {
	for _, d := range [...]struct {
		name string
		list []int
	}{{"rows of the broadcast operand", s.In}, {"rows of the result", s.Out},
		{"tiles", []int{constantOr0(s.Tiles.In), constantOr0(s.Tiles.Vec), constantOr0(s.Tiles.Out)}},
		{"prefetched lines", []int{s.PrefetchDistance, s.PrefetchedLines * lineBytes}},
		{"packed terms", []int{s.unroll() * s.PackStep}}} {
		for _, n := range d.list {
			if !fitsDistance(n) {
				return fmt.Errorf("tile: %s: a distance of %d bytes is too large", d.name, n)
			}
		}
	}
	for i, l := range s.Loops {
		if !fitsDistance(l.In) || !fitsDistance(l.Vec) || l.Trips > math.MaxInt32 || l.Block > math.MaxInt32 {
			return fmt.Errorf("tile: loop %d has a distance or a number that is too large: %+v", i, l)
		}
	}
	inEnd, vecEnd := 0, 0 // the ends of the previous run's terms
	for i, r := range s.Runs {
		terms := r.Terms
		if terms == Dynamic {
			terms = s.unroll()
		}
		if !fitsDistance(r.In) || !fitsDistance(r.Vec) || !endFits(r.InStep, terms) || !endFits(r.VecStep, terms) ||
			!fitsInt32(r.In-inEnd) || !fitsInt32(r.Vec-vecEnd) {
			return fmt.Errorf("tile: run %d has a distance or a number that is too large: %+v", i, r)
		}
		inEnd, vecEnd = r.In+terms*r.InStep, r.Vec+terms*r.VecStep
	}
	return nil
}

func fitsDistance(distance int) bool {
	return distance <= maxDistance && distance >= -maxDistance
}

// constantOr0 returns a constant distance, or 0 for a dynamic one.
func constantOr0(distance int) int {
	if distance == Dynamic {
		return 0
	}
	return distance
}

func fitsInt32(distance int) bool { return distance == int(int32(distance)) }

// endFits reports whether step*terms is within the bound.
func endFits(step, terms int) bool {
	return terms <= math.MaxInt32 && fitsDistance(constantOr0(step)) && fitsDistance(constantOr0(step)*terms)
}

// unroll returns the number of terms of an iteration of the k-loop.
func (s *Spec) unroll() int {
	if s.Unroll > 0 {
		return s.Unroll
	}
	return DefaultUnroll
}
