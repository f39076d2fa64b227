package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// TestHelpGroups finds each flag once in the help of its command; commands with many flags list all of them below the
// headings of groups.
func TestHelpGroups(t *testing.T) {
	for _, c := range newRoot(extend(t)).Commands() {
		help := succeed(t, c.Name(), "--help")
		flags := 1 // --help
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flags++
			line := regexp.MustCompile(`(?m)^  (    |-., )--` + f.Name + `( .*)?$`)
			assert.Len(t, line.FindAllString(help, -1), 1, "%s --%s", c.Name(), f.Name)
		})
		_, other, isGrouped := strings.Cut(help, "\nOther:\n")
		assert.Equal(t, flags > 12, isGrouped, c.Name())
		if isGrouped {
			assert.NotContains(t, help, "\nFlags:\n")
			other, _, _ = strings.Cut(other, "\n\n")
			assert.Regexp(t, `^ +-h, --help [^\n]*$`, other, "%s: flags without a group: see flagGroups", c.Name())
		}
	}
	plan := succeed(t, "plan", "--help")
	for _, heading := range []string{"Model and inputs", "Plan and run", "Questions about the plan", "Output"} {
		assert.Contains(t, plan, "\n\n"+heading+":\n")
	}
	assert.Contains(t, succeed(t, "verify", "--help"), "\nFlags:\n")
}
