package operators

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTablesAreDisjoint checks that mergeTables keeps all converters, and panics for an operator in two tables.
func TestTablesAreDisjoint(t *testing.T) {
	assert.Panics(t, func() { mergeTables(elements, map[string]converter{"Abs": identity}) })
	assert.Len(t, mergeTables(map[string]converter{"A": identity}, map[string]converter{"B": identity}), 2)
}
