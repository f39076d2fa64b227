package apifuzz

import (
	"reflect"

	"github.com/graphrun/graphrun/internal/contiguity"
)

// enough bounds the calls of a function.
const enough = 10000

// zeros are the zero results of a function that the caller brings.
func zeros(t reflect.Type) []reflect.Value {
	out := make([]reflect.Value, t.NumOut())
	for i := range out {
		out[i] = reflect.Zero(t.Out(i))
	}
	return out
}

// claimOf returns a claim, or the zero one, which says nothing.
func claimOf(w *world) contiguity.Claim {
	c, _ := contiguity.ParseClaim(pick(w, []string{"", "contiguous => non_overlapping_and_dense", "~no_overlap"}))
	return c
}
