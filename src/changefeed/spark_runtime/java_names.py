"""Java's packages and classes by name, each looked up once.

For `jvm.org.apache.hadoop.fs.Path`, py4j asks the JVM at every dot whether the name so far is a class. For a package, the
class loader then searches all jars, for `org` once per package that pyspark has imported: a tenth of the JVM's CPU time in
runs with small tables. The answers do not change, with one exception: a class that is missing, which py4j also returns as a
package, may come with a jar that is added later. By Java's convention its name has an upper case letter, and it is looked up
again.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView

_TOP = ("com", "java", "org", "py4j", "scala")


class _Package(JavaPackage):  # type: ignore[misc]  # py4j has no types
    """A package whose members are looked up once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if type(member) is JavaPackage and name.islower():
            member = _Package(member._fqn, member._gateway_client, member._jvm_id)
        if isinstance(member, (_Package, JavaClass)):
            self.__dict__[name] = member
        return member


def remember_packages(jvm: JVMView) -> None:
    """Makes the view of a JVM remember the packages and classes that it has looked up."""
    for name in _TOP:
        vars(jvm)[name] = _Package(name, jvm._gateway_client, jvm._id)
