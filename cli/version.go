package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/environment"
)

// versionCommand returns the command version.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of the module, the commit of the build ("modified" if files differed from the
commit), the version of Go, and the instruction set of the generated machine code, or the reason why no
machine code is generated. graphrun --version prints the same.`,
		Example: `  graphrun version`,
		Args:    command.NoArguments,
		RunE:    exit.WithExitCode(printVersion),
	}
}

func printVersion(cmd *cobra.Command, _ []string) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
	return err
}

// versionText returns the version of graphrun, the platform, and the instruction set of generated code.
func versionText() string {
	return fmt.Sprintf("%s %s/%s\n%s", environment.Version(), runtime.GOOS, runtime.GOARCH, environment.Code())
}
