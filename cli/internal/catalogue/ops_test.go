package catalogue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortened(t *testing.T) {
	require.Equal(t, "add(self, other)", shortened("add(self, other)", 16))
	require.Equal(t, "add(self, ...)", shortened("add(self, other, alpha)", 16))
	long := "op(" + strings.Repeat("x", 80) + ", y)"
	require.Equal(t, long, shortened(long, 72), "the first argument is too long")
}
