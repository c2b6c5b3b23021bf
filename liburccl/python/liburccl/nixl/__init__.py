# SPDX-License-Identifier: Apache-2.0
"""
The NIXL backend URCCL: where its plugin is, and how NIXL finds it.

NIXL looks for plugins beside its own library. link() puts a symbolic link there, so that agents may
have URCCL and UCX together; NIXL_PLUGIN_DIR=path() does without, with URCCL alone.
"""
import importlib.util
import os
import pathlib
import sysconfig

FILE = "libplugin_URCCL.so"
PACKAGES = ("nixl_cu13", "nixl_cu12", "nixl_rocm")


def path() -> pathlib.Path:
    """The folder with the plugin, for NIXL_PLUGIN_DIR."""
    here = pathlib.Path(os.environ.get("LIBURCCL_NIXL_DIR") or pathlib.Path(__file__).parent)
    system = pathlib.Path("/usr/lib", sysconfig.get_config_var("MULTIARCH") or "", "liburccl/nixl")
    if not (here / FILE).exists() and (system / FILE).exists():
        return system           # of the package liburccl-nixl
    if not (here / FILE).exists():
        raise FileNotFoundError(f"{here / FILE} is missing: liburccl was built without a C++20 "
                                "compiler; install one and build it again")
    return here


def folders() -> list[pathlib.Path]:
    """The plugin folders of the NIXL wheels that this Python finds."""
    found = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = pathlib.Path(place).parent / f".{package}.mesonpy.libs" / "plugins"
            if folder.is_dir():
                found.append(folder)
    return found


def link() -> list[pathlib.Path]:
    """Links the plugin into each wheel. Returns the links; again after NIXL was upgraded."""
    target = path() / FILE
    made = []
    for folder in folders():
        at = folder / FILE
        if at.is_symlink() or at.exists():
            at.unlink()
        at.symlink_to(target)
        made.append(at)
    return made


def unlink() -> list[pathlib.Path]:
    """Takes the links away. Returns those that were there."""
    gone = [folder / FILE for folder in folders() if (folder / FILE).is_symlink()]
    for at in gone:
        at.unlink()
    return gone
