// health: what Helm 4 and Flux (kstatus) and Argo CD (a health check in Lua) make of objects, by the libraries that they use.
//
// Reads a file with Lua, and one JSON object a line from standard input. Writes one line each: kstatus, Argo CD's status, its message.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

func main() {
	script, err := os.ReadFile(os.Args[1])
	check(err)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		check(json.Unmarshal(lines.Bytes(), &object.Object))
		// As the API's own decoder does: whole numbers are integers.
		check(object.UnmarshalJSON(lines.Bytes()))
		computed, err := status.Compute(object)
		check(err)
		health, message := argo(string(script), lines.Bytes())
		fmt.Printf("%s\t%s\t%s\n", computed.Status, health, message)
	}
	check(lines.Err())
}

// argo runs the check with the libraries that Argo CD opens for it: base, table, string.
func argo(script string, object []byte) (string, string) {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		check(vm.CallByParam(lua.P{Fn: vm.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	value, err := luajson.Decode(vm, object)
	check(err)
	vm.SetGlobal("obj", value)
	check(vm.DoString(script))
	answer, ok := vm.Get(-1).(*lua.LTable)
	if !ok {
		check(fmt.Errorf("the check returned no table"))
	}
	return answer.RawGetString("status").String(), answer.RawGetString("message").String()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
