package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of the module, the commit of the build ("modified" if files differed from it),
the version of Go, and the instruction set of the generated machine code, or the reason why there is
none. graphrun --version prints the same.`,
		Example: `  graphrun version`,
		Args:    command.NoArguments,
		RunE: exit.Coded(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		}),
	}
}

// versionText returns the version of the module, the commit if the build recorded one, and the toolchain.
func versionText() string {
	version, settings := "(devel)", map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" {
			version = v
		}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	commit := "unknown revision"
	if r := settings["vcs.revision"]; r != "" {
		commit = "revision " + r
		if settings["vcs.modified"] == "true" {
			commit += " (modified)"
		}
	}
	return fmt.Sprintf("graphrun %s, %s, %s %s/%s\n%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		machineCode())
}

// machineCode describes the machine code that loops use.
func machineCode() string {
	if err := jit.Available(); err != nil {
		return fmt.Sprintf("no machine code: %v", err)
	}
	return "machine code for " + machine.Describe()
}
