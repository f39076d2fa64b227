package sym_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shape inference calls these for every size of every node: a call instead of a few instructions would slow
// down the planning of large graphs.
func TestFastPathsAreInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m=1", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	inlined := map[string]bool{}
	for _, m := range regexp.MustCompile(`can inline (Int|Bool)\.(\w+)`).FindAllStringSubmatch(string(out), -1) {
		inlined[m[1]+"."+m[2]] = true
	}
	for _, name := range strings.Fields("Int.Add Int.Sub Int.Mul Int.Max Int.Min Int.Eq Int.Ne Int.Lt Int.Le " +
		"Int.Gt Int.Ge Int.Known Int.Hint Bool.And Bool.Or Bool.Holds") {
		require.True(t, inlined[name], "%s is not inlined", name)
	}
}
